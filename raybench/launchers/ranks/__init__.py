"""Ranks that the user's own launcher starts (torchrun, mpirun, srun): which rank this is, and what is typed."""
