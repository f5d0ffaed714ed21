"""GPUDirect RDMA: missing, partial, or kept short."""
