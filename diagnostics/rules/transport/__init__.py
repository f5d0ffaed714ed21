"""Which network NCCL takes for data, and why not RDMA: devices, libraries, filters, plugins."""
