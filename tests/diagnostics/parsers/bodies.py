"""Bodies of NCCL's and RCCL's warnings by release, as its sources print them: what the carriers' tests are made from.

A row: kind of event, first and last release that has the wording ("" is the newest), body. Addresses and names are
made up; a few rows leave the peer out, as published reports do. RCCL has NCCL's wording of the release it was forked from, and its own words for HIP.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One wording of a warning."""

    kind: str
    first: str
    last: str
    text: str


_TABLE = """
connect-failed|2.0|2.9.9|Connect to 10.0.0.2<4312> failed : No route to host
connect-failed|2.0|2.3.7|Call to connect timeout : Connection refused
connect-failed|2.10.3|2.15.5|Net : Connect to 10.0.0.2<4312> failed : Connection timed out
connect-failed|2.16.2|2.23.4|socketStartConnect: Connect to 10.0.0.2<4312> failed : Connection refused
connect-failed|2.16.2|2.23.4|socketPollConnect: exceeded timeouts (3)
connect-failed|2.18.1|2.23.4|socketPollConnect: Connect to 10.0.0.4<5> returned 113(No route to host) errno 115(Operation now in progress)
connect-failed|2.24.3||socketPollConnect: connect to 10.0.0.2<4> returned Connection timed out, exceeded error retry count after 35 attempts
connect-failed|2.16.2|2.23.4|socketStartConnect: Connect to failed : Connection refused
connect-failed|2.24.3||socketPollConnect: connect to returned Connection timed out, exceeded error retry count after 35 attempts
connect-failed|2.27.3||socketPollConnect to failed with error Connection refused
completion-error|2.10.3|2.19.4|NET/IB : Got completion from peer with error 12, opcode 0, len 0, vendor err 129
completion-error|2.20.3||NET/IB : Got completion from peer with status=12 opcode=0 len=0 vendor err 129 (Recv)
message-truncated|2.10.3||NET/Socket : peer message truncated : receiving 1048576 bytes instead of 65536. If you believe
peer-closed|2.0|2.9.9|Net : Connection closed by remote peer
peer-closed|2.10.3|2.15.5|Net : Connection closed by remote peer 10.0.0.2<4312>
peer-closed|2.16.2||socketProgress: Connection closed by remote peer node02<35187>
peer-closed|2.0|2.15.5|Call to recv failed : Connection reset by peer
peer-closed|2.16.2|2.23.4|socketProgressOpt: Call to recv from 10.0.0.2<4312> failed : Connection reset by peer
peer-closed|2.29.1||ncclOsSocketProgressOpt: Call to send to 10.0.0.2<4312> failed : Broken pipe
foreign-connection|2.16.2|2.26.6|socketFinalizeAccept: wrong type 4 != 3
foreign-connection|2.16.2|2.26.6|socketFinalizeAccept: wrong magic 3132333435 != 564ab9f2
foreign-connection|2.10.3||Net : connecting to address  with family 33621 is neither AF_INET(2) nor AF_INET6(10)
no-interface|2.0||Bootstrap : no socket interface found
rank-count-mismatch|2.2||Bootstrap Root : mismatch in rank count from procs 16 : 8
files-exhausted|2.0||Call to socket failed : Too many open files
verbs-failed|2.0|2.18.6|Call to ibv_create_qp failed
verbs-failed|2.0|2.23.4|Call to ibv_modify_qp failed with error Network is unreachable
verbs-failed|2.19.1|2.23.4|Call to ibv_create_qp failed with error Cannot allocate memory errno 12
verbs-failed|2.24.3||Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.2
completion-error|2.0|2.9.9|NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129
completion-error|2.10.3|2.19.4|NET/IB : Got completion from peer 10.2.0.5<33092> with error 12, opcode 0, len 0, vendor err 129
completion-error|2.20.3|2.21.5|NET/IB : Got completion from peer 10.2.0.5<33092> with status=12 opcode=0 len=0 vendor err 129 (Recv)
completion-error|2.22.3|2.28.3|NET/IB: Got completion from peer 10.2.0.5<33092> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_0
completion-error|2.28.7||NET/IB: Got completion from peer 10.0.0.2<4> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_0
async-event|2.0|2.19.4|NET/IB : Got async event : port error
async-event|2.20.3|2.22.3|NET/IB : mlx5_0:1 Got async event : port error
async-event|2.23.4||NET/IB : mlx5_0:1 async fatal event on QP (0x55d4): local work queue catastrophic error
link-layer-mismatch|2.26.2||NET/IB : Remote RoCE device is incompatible with the local [0]mlx5_0:1/IB. Try selecting NICs of only one link type using NCCL_IB_HCA
gid-unreadable|2.23.4|2.25.1|NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument
shm-extend-failed|2.0|2.11.4|Call to posix_fallocate failed : No space left on device
shm-extend-failed|2.0|2.21.5|Error while creating shared memory segment nccl-shm-recv-1462445a6f01cbfc-1-2-3 (size 9637888)
shm-extend-failed|2.12.7|2.21.5|Error: failed to extend /dev/shm/nccl-UbzKZ9 to 9637892 bytes
shm-extend-failed|2.22.3||Error: failed to extend /dev/shm/nccl-UbzKZ9 to 9637892 bytes, error: No space left on device (28)
shm-attach-failed|2.12.7|2.21.5|Error while attaching to shared memory segment /dev/shm/nccl-cEbfL2 (size 0)
shm-attach-failed|2.22.3||Error while attaching to shared memory segment /dev/shm/nccl-glnlGK (size 14156128), error: No such file or directory (2)
cuda-failure|2.0|2.18.6|Cuda failure 'out of memory'
cuda-failure|2.19.1||Cuda failure 700 'an illegal memory access was encountered'
cuda-failure|2.5.6||HIP failure 'invalid device ordinal'
gpu-out-of-memory|2.14.3||Failed to CUDA calloc 6291456 bytes
ipc-failed|2.0|2.18.6|failed to open CUDA IPC handle : 217 peer access is not supported between these two devices
ipc-failed|2.5.6||hipIpcGetMemHandle failed : invalid argument
duplicate-gpu|2.5.6|2.29.7|Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000
nvls-failed|2.27.3||Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'.
collective-mismatch|2.4.2|2.7.6|Mismatched collective detected, please check your collective calls at and around rank 3. You can use NCCL_DEBUG=INFO
message-truncated|2.0||Message truncated : received 256 bytes instead of 4
message-truncated|2.4.2|2.10.2|NET/Socket : message truncated : receiving 696320 bytes instead of 32768
message-truncated|2.10.3||NET/Socket : peer 10.0.0.2<4231> message truncated : receiving 1048576 bytes instead of 65536. If you believe
no-transport|2.0|2.11.4|No transport found !
no-transport|2.12.7||No transport found for rank 0[1000] -> rank 8[1000]
network-not-found|2.10.3|2.26.6|Error: network AWS Libfabric not found.
plugin-none|2.27.3||Failed to initialize any NET plugin
plugin-registration-failed|2.4.2||NET/OFI Unable to register memory (type = 2) for device 0. RC: -12, Error: Cannot allocate memory
shm-extend-failed|2.22.3||Error: failed to create shared memory file /dev/shm/nccl-XXXXXX, error Permission denied (13)
shm-extend-failed|2.18.1||Error: Could not map /dev/shm/nccl-a1b2c3 size 9637888, error: Cannot allocate memory (12)
ipc-failed|2.4.2||failed to peer with device 1(=3b000): 217 peer access is not supported between these two devices
ipc-failed|2.18.1||UDS: Cannot bind provided name to socket. Name too large
connect-failed|2.27.3||socketPollConnect to 10.0.0.2<4312> failed with error Connection refused
address-invalid|2.4.2||Net : No valid <IPv4_or_hostname>:<port> pair found
files-exhausted|2.10.3|2.23.4|ncclSocketInit: Socket creation failed : Too many open files
ipc-failed|2.18.1||UDS: Sending data over socket /tmp/nccl-socket-1-2d failed : Connection refused (111)
library-missing|2.4.2||Failed to open libnvidia-ml.so.1
library-missing|2.4.2||nvmlDeviceGetHandleByPciBusId() failed: GPU is lost
topology-file-bad|2.4.2||XML Parse error : expecting '<', got 'x'
topology-file-bad|2.4.2||XML Graph has wrong version 2, 1 needed
net-device-mismatch|2.30.3||Detected mixed local CollNet device counts across ranks (min 1, max 2). Set NCCL_IGNORE_COLLNET_MISMATCH=1 to continue.
version-mismatch|2.23.4||Mismatched NCCL version detected : rank 0 version 22304 rank 1 version 22406 build 1
verbs-failed|2.10.3||ibv_post_send() failed with error Cannot allocate memory, Bad WR 0x7f3c, First WR 0x7f3c
verbs-failed|2.28.3||NET/IB: mlx5dv_create_qp failed to create QP: Invalid argument
library-missing|2.4.2||nvmlDeviceGetHandleByIndex(3) failed: GPU is lost
"""


_REDACTED = """
connect-failed|2.16.2|2.23.4|socketStartConnect: Connect to (hidden address) failed : Connection refused
connect-failed|2.16.2|2.23.4|socketStartConnect: Connect to <hidden> failed : No route to host
connect-failed|2.16.2|2.23.4|socketStartConnect: Connect to [IP] failed : Connection timed out
connect-failed|2.16.2|2.23.4|socketStartConnect: Connect to  failed : Connection refused
completion-error|2.22.3|2.28.3|NET/IB: Got completion from peer <hidden> with status=12 opcode=0 len=0 vendor err 129 (Recv)
shm-extend-failed|2.12.7|2.21.5|Error: failed to extend /dev/shm/nccl-XXXXXX to N bytes
shm-extend-failed|2.0|2.21.5|Error while creating shared memory segment /dev/shm/nccl-XXXXXX (size ...)
message-truncated|2.10.3||NET/Socket : peer <hidden> message truncated : receiving N bytes instead of M. If you believe
duplicate-gpu|2.5.6|2.29.7|Duplicate GPU detected : rank X and rank Y both on CUDA device <bus>
"""


def bodies() -> Iterator[Body]:
    """All rows of the table, as NCCL prints them."""
    return _rows(_TABLE)


def redacted_bodies() -> Iterator[Body]:
    """Bodies as reports publish them, with words in the place of what their writers do not show."""
    return _rows(_REDACTED)


def _rows(table: str) -> Iterator[Body]:
    for row in table.strip().splitlines():
        kind, first, last, text = row.split("|", 3)
        yield Body(kind=kind, first=first, last=last, text=text)
