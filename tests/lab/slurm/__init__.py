"""A Slurm cluster over the nodes of a lab: real munge, slurmctld and slurmd. Start in ``cluster.py``."""
