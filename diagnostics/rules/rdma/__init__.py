"""RDMA that is used and fails: connections, completions, ports, memory that is registered."""
