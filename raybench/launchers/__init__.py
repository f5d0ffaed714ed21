"""Runs under the user's own scheduler: what is handed to it, what runs inside of a job, what it says of a job.

A scheduler is a folder here. What starts programs (``sbatch``, ``kubectl``) is in ``services/launching``.
"""
