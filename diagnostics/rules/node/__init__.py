"""Inside a machine: GPUs, peer access, shared memory, PCIe and what the host allows."""
