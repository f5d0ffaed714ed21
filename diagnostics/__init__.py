"""What an NCCL log proves, why, and what to do. Standard library only: neither Ray nor torch is imported here."""
