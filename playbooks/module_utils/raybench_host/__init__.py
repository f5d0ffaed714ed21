"""What every module of ours needs of a host: files, programs, processes, RDMA devices, locks. Python 3.8 or newer."""
