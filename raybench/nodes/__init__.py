"""What schedulers and monitoring are told of nodes: from the verdicts of a preflight to lists, drains and files.

Pure, but for ``history``, which keeps a file.

A scheduler is a module here (``slurm``, ``kubernetes``): what it says of its nodes is read, and what is to be done is
planned. What starts programs is in ``services/nodes``.
"""
