"""Shared memory, GPU memory and CUDA errors."""

from diagnostics.parsers.base import Pattern

PATTERNS = (
    Pattern(
        kind="shm-extend-failed",
        literal="rror",
        expression=(
            r"(?:Error: failed to extend (?P<segment>/dev/shm/\S+) to (?P<size>\S+) bytes"
            r"|Error while creating shared memory segment (?P<created>\S+) \(size (?P<bytes>[^()]+)\))"
            r"(?:, error: (?P<reason>.*))?"
        ),
        samples=(
            "Error: failed to extend /dev/shm/nccl-UbzKZ9 to 9637892 bytes",
            "Error while creating shared memory segment /dev/shm/nccl-UbzKZ9 (size 9637888)",
        ),
    ),
    Pattern(
        kind="shm-attach-failed",
        literal="shared memory",
        expression=(
            r"Error while attaching to shared memory segment (?P<segment>\S+)"
            r"|unlink shared memory (?P<unlinked>\S+) failed, error: No such file"
        ),
        samples=("Error while attaching to shared memory segment /dev/shm/nccl-cEbfL2 (size 0)",),
    ),
    Pattern(
        kind="shm-extend-failed",
        literal="Call to ",
        expression=(
            r"Call to (?:shm_open|posix_fallocate|fallocate|ftruncate|mmap) failed ?: ?"
            r"(?P<reason>(?!No such file|To)[A-Z].*)"
        ),
        samples=(
            "Call to posix_fallocate failed : No space left on device",
            "Call to shm_open failed : Permission denied",
        ),
    ),
    Pattern(
        kind="ipc-failed",
        literal="UDS: Socket creation",
        expression=r"(?P<call>UDS): Socket creation error : (?P<reason>(?!To).*)",
        samples=("UDS: Socket creation error : Permission denied (13)",),
    ),
    Pattern(
        kind="shm-attach-failed",
        literal="Call to ",
        expression=r"Call to (?:shm_)?open failed ?: (?P<reason>No such file or directory)",
        samples=("Call to open failed: No such file or directory",),
    ),
    Pattern(
        kind="cuda-failure",
        literal="failure",
        expression=r"(?P<api>Cuda|HIP|CUDA) failure:? (?:(?P<number>\d+) )?'(?P<reason>[^']+)",
        samples=("Cuda failure 'out of memory'", "Cuda failure 700 'an illegal memory access was encountered'"),
    ),
    Pattern(
        kind="gpu-out-of-memory",
        literal="Failed to CUDA",
        expression=r"Failed to CUDA (?P<call>host alloc|malloc|calloc(?: async)?) (?P<size>\d+) bytes",
        samples=("Failed to CUDA malloc 4194304 bytes",),
    ),
    Pattern(
        kind="ipc-failed",
        literal="Handle",
        expression=(
            r"(?P<call>cudaIpc(?:Get|Open)MemHandle|hipIpc(?:Get|Open)MemHandle|cuMem(?:Import"
            r"|Export)\w*Handle) ?failed"
        ),
        samples=("cudaIpcGetMemHandle failed : invalid argument",),
    ),
    Pattern(
        kind="ipc-failed",
        literal="IPC handle",
        expression=r"[Ff]ailed to open (?P<call>CUDA|HIP) IPC handle ?: ?(?P<reason>.*)",
        samples=("failed to open CUDA IPC handle : 201 invalid device context",),
    ),
    Pattern(  # what CUDA says where NCCL maps memory of another process: 217, 205
        kind="ipc-failed",
        literal="failure",
        expression=(
            r"(?:Cuda|HIP|CUDA) failure:? (?:\d+ )?'(?P<reason>peer access is not supported between these two devices"
            r"|mapping of buffer object failed)'"
        ),
        samples=(
            "Cuda failure 'peer access is not supported between these two devices'",
            "Cuda failure 205 'mapping of buffer object failed'",
        ),
    ),
    Pattern(
        kind="ipc-failed",
        literal="failed to peer with device",
        expression=r"failed to (?P<call>peer) with device \S+ ?: ?(?P<reason>\S.*)",
        samples=("failed to peer with device 1(=3b000): 217 peer access is not supported between these two devices",),
    ),
    Pattern(
        kind="ipc-failed",
        literal="UDS: Cannot ",
        expression=r"(?P<call>UDS): Cannot (?:bind|connect to) provided name (?:to|for) socket\. (?P<reason>.*)",
        samples=("UDS: Cannot bind provided name to socket. Name too large",),
    ),
    Pattern(
        kind="ipc-failed",
        literal="UDS: ",
        expression=(
            r"(?P<call>UDS): (?:Sending data over|Receiving data over|Binding to) socket (?:\S+ )?failed"
            r"(?: : (?P<reason>.*))?"
        ),
        samples=(
            "UDS: Sending data over socket /tmp/nccl-socket-1-2d failed : Connection refused (111)",
            "UDS: Binding to socket /tmp/nccl-socket-0-5 failed : 98",
        ),
    ),
    Pattern(
        kind="shm-extend-failed",
        literal="rror",
        expression=(
            r"Error: (?:failed to create shared memory file (?P<segment>\S+), error"
            r"|Could not map (?P<mapped>/dev/shm/\S+) size (?P<size>\d+), error:) (?P<reason>.*)"
        ),
        samples=(
            "Error: failed to create shared memory file /dev/shm/nccl-XXXXXX, error Permission denied (13)",
            "Error: Could not map /dev/shm/nccl-a1b2c3 size 9637888, error: Cannot allocate memory (12)",
        ),
    ),
    Pattern(
        kind="library-missing",
        literal="nvml",
        expression=r"nvml[A-Z]\w+\([^()]*\) failed: (?P<reason>.*)",
        samples=(
            "nvmlInit_v2() failed: Driver/library version mismatch",
            "nvmlDeviceGetHandleByPciBusId() failed: GPU is lost",
            "nvmlDeviceGetHandleByIndex(3) failed: Unknown Error",
        ),
    ),
    Pattern(
        kind="library-missing",
        literal="NVML failure",
        expression=r"NVML failure '(?P<reason>[^']+)'",
        samples=("NVML failure 'GPU is lost'",),
    ),
    Pattern(
        kind="library-missing",
        literal="libnvidia-ml",
        expression=r"(?P<reason>Failed to open libnvidia-ml\.so\S*)",
        samples=("Failed to open libnvidia-ml.so.1",),
    ),
)
