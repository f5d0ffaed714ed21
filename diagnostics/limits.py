"""Limits by which logs are judged, and what raybench measures and reads on hosts as well: each stands here once."""

HIGH_SYNC_SHARE = 0.40  # of a step that waits for communication: this project's seed documents

# What NCCL takes of /dev/shm at its first collective. Measured over sockets, NCCL alone, no GPU in the way; 2.30.7 does
# not take it.
NCCL_WITH_LARGE_SHM = (2, 32, 3)
SHM_BYTES_PER_RANK = 68_420_268

LOOPBACK = "lo"  # the interface that leads back to its own host
NORMAL_95 = 1.96  # standard errors on each side of the 95 % interval of a normal distribution
