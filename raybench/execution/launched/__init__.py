"""Ranks that the user's own launcher starts (torchrun, mpirun, srun), in place of Ray: the same questions, over TCP."""
