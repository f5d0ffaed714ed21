"""The program around NCCL: its variables, its end, and what its log leaves open."""
