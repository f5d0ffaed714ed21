"""What a training benchmark measured: its point, and what was found of ranks, memory and held-out samples."""
