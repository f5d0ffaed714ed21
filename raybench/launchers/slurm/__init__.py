"""Slurm: the batch script, the two programs that run inside of a job, and what ``scontrol`` says of one."""
