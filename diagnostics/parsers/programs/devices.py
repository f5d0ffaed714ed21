"""Errors of the GPU, its driver and libraries, as programs and the kernel spell them: CUDA, cuBLAS, cuDNN, HIP, Xid."""

from diagnostics.parsers.programs.rows import rows

# what CUDA says, whoever passes it on: Triton Error [CUDA], CUDA driver error, Test CUDA failure
_TEXTS = (
    "misaligned address",
    "no CUDA-capable device is detected",
    "no kernel image is available",
    "peer access is not supported between these two devices",
    "peer mapping resources exhausted",
    "system not yet initialized",
    "unknown error",
)
# what nobody else says, so that it counts wherever it stands as what was returned, behind a sign and not in a sentence
_OWN_TEXTS = (
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "device-side assert triggered",
    "unspecified launch failure",
    "uncorrectable ECC error encountered",
    "the launch timed out and was terminated",
    "all CUDA-capable devices are busy or unavailable",
    "device kernel image is invalid",
)
_RETURNED = r"^(?!.*\b(?:[Mm]ay be|[Mm]ight be|INFO|WARNING|[Ww]arning|W tensorflow)\b).*?[:=>(\['\"-] ?"
_PASSED_ON = r"(?:\[CUDA\]|(?i:cuda|hip)\b.{0,40}?(?:error|failure)\b.{0,60}?)[:' ]+"
_NO_MEMORY = (  # of XLA
    r"(?:Out of memory|OOM when allocating|Error allocating|Attempting to (?:allocate|reserve)|Failed to allocate)"
)
_DEVICE = (
    *(
        (text, rf"{_PASSED_ON}(?P<reason>{text}.*?)(?:'|$)", f"RuntimeError: Triton Error [CUDA]: {text}")
        for text in _TEXTS
    ),
    *(
        (
            text,
            rf"{_RETURNED}(?P<reason>{text}.*?)(?:['\")]|$)",
            f"HPL ERROR: CUDART Error: cudaMemcpyAsync(a, b, n) = 700 ({text}) on gpu-a at (getrfs.cu:7)",
        )
        for text in _OWN_TEXTS
    ),
    (  # of a kernel, by the device itself; the error that CUDA returns for it comes later, or never
        "], thread: [",
        r"block: \[\d+, ?\d+, ?\d+\], thread: \[\d+, ?\d+, ?\d+\] (?P<reason>Assertion .* failed)",
        "Indexing.cu:1284: indexSelectLargeIndex: block: [3,0,0], thread: [0,0,0] Assertion `srcIndex < n` failed.",
    ),
    (
        "Test CUDA failure",
        r"Test CUDA failure \S+ '(?P<reason>[^']+)'",
        "gpu-07: Test CUDA failure common.cu:892 'invalid device ordinal'",
    ),
    (
        "Test HIP failure",
        r"Test HIP failure \S+ '(?P<reason>[^']+)'",
        "gpu-07: Test HIP failure common.cu:1016 'invalid argument'",
    ),
    (  # where the exception's name is torn off it
        "out of memory. Tried to allocate",
        r"(?<!Error: )(?P<reason>\b(?:CUDA|HIP) out of memory\. Tried to allocate.*)",
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 39.59 GiB total capacity; 36.1 GiB already allocated)",
    ),
    (
        "CUDA error",
        r"\b(?:CUDA|HIP) error: (?!.*CU\w+_STATUS_)(?P<reason>[^'].*)",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
    ("HIP error", r"\bHIP error: (?P<reason>.+)", "RuntimeError: HIP error: invalid device function"),
    (  # Horovod, CuPy: cudaEventQuery, cudaStreamSynchronize, hipMalloc
        "failed: ",
        r"\b(?:cuda|hip)[A-Z]\w+(?:\([^()]*\))? failed: (?P<reason>[a-z].*)",
        "  what():  cudaEventQuery failed: an illegal memory access was encountered",
    ),
    (  # PyTorch up to 1.7
        "cuda runtime error (",
        r"cuda runtime error \(\d+\) ?: (?P<reason>.+?)(?: at /\S+)?$",
        "RuntimeError: cuda runtime error (101) : invalid device ordinal at /pytorch/torch/csrc/cuda/Module.cpp:33",
    ),
    (
        "THCudaCheck FAIL",
        r"THCudaCheck FAIL .*error=\d+ ?: (?P<reason>.+)",
        "THCudaCheck FAIL file=/pytorch/torch/csrc/cuda/Module.cpp line=33 error=101 : invalid device ordinal",
    ),
    (
        "CUDA runtime error in",
        r"CUDA runtime error in .*?\): (?P<reason>[^()]+)",
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, stream): out of memory (/src/tllm.h:12)",
    ),
    (
        "_STATUS_",
        r"\b(?P<reason>CU(?:BLAS|DNN|SOLVER|SPARSE|FFT)_STATUS_(?!SUCCESS)\w+)",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    ),
    (
        "cudaError",
        r"\b(?P<reason>cudaError(?!_t\b|s\b)[A-Z]\w+)",
        "CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access",
    ),
    (
        "CUDA_ERROR_",
        r"^(?!.*: W tensorflow/).*\b(?P<reason>CUDA_ERROR_(?!CHECK|TOO_MANY_PEERS|PEER_ACCESS_)[A-Z_]{4,})",
        "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
    ),
    (
        "HSA_STATUS_ERROR",
        r"\b(?P<reason>HSA_STATUS_ERROR\w*.*)",
        "HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception.",
    ),
    (
        "Memory access fault by GPU",
        r"(?P<reason>Memory access fault by GPU .*)",
        "Memory access fault by GPU node-2 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.",
    ),
    (
        "HW Exception by GPU",
        r"(?P<reason>HW Exception by GPU .*)",
        "HW Exception by GPU node-4 (Agent handle: 0x55d) reason :GPU Hang",
    ),
    (
        "has fallen off the bus",
        r"(?P<reason>GPU\b.* has fallen off the bus)",
        "NVRM: GPU at PCI:0000:4f:00: GPU-1c2d has fallen off the bus.",
    ),
    (
        "NVIDIA driver on your system",
        r"(?P<reason>(?:The|Found no) NVIDIA driver on your system.*)",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
    ),
    (
        "driver version is insufficient",
        r"(?P<reason>CUDA driver version is insufficient.*)",
        "CUDA driver version is insufficient for CUDA runtime version",
    ),
    *(
        (literal, rf"(?P<reason>{expression})", sample)
        for literal, expression, sample in (
            (
                "with GPUs, no GPUs found",
                r"ProcessGroupNCCL is only supported with GPUs, no GPUs found.*",
                "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
            ),
            (
                "GPUs are available",
                r"No (?:CUDA|HIP) GPUs are available.*",
                "RuntimeError: No CUDA GPUs are available",
            ),
            (
                "CUDA in forked subprocess",
                r"Cannot re-initialize CUDA in forked subprocess.*",
                "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA there, use spawn",
            ),
            ("infer device type", r"Failed to infer device type.*", "RuntimeError: Failed to infer device type"),
            (
                "driver initialization failed",
                r"CUDA driver initialization failed.*",
                "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.",
            ),
            (
                "GPU access blocked",
                r"GPU access blocked by the operating system.*",
                "Failed to initialize NVML: GPU access blocked by the operating system",
            ),
            (
                "initialize NVML: ",
                r"Failed to initialize NVML: (?!GPU access).*",
                "Failed to initialize NVML: Unknown Error",
            ),
            (
                "nvidia-container-cli: ",
                r"nvidia-container-cli: .*error.*",
                "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
            ),
            (
                "Unable to determine the device handle",
                r"Unable to determine the device handle for (?:GPU|gpu)\S* ?.*",
                "Unable to determine the device handle for GPU 0000:4F:00.0: GPU is lost.  Reboot the system",
            ),
            ("RmInitAdapter failed", r"RmInitAdapter failed.*", "NVRM: GPU 0000:4f:00.0: RmInitAdapter failed! (0x26)"),
            (
                "Cuda error ",
                r"Cuda error \S+:\d+ '.*",
                "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:346 'invalid argument'",
            ),
        )
    ),
    (
        "from cudaGetDeviceCount()",
        r"Unexpected error from cudaGetDeviceCount\(\).*?(?P<reason>Error \d+: .*)",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run? Error 802: system not yet initialized",
    ),
    (
        "system not yet initialized",
        r"^(?!.*cudaGetDeviceCount).*\bError \d{3}: (?P<reason>system not yet initialized)",
        "CUDA initialization: Error 802: system not yet initialized",
    ),
    *(
        (literal, rf"(?P<reason>{expression})", sample)
        for literal, expression, sample in (
            (
                "RESOURCE_EXHAUSTED: ",
                rf"(?<=RESOURCE_EXHAUSTED: ){_NO_MEMORY}.*",
                "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
            ),
            (
                "esource exhausted: ",
                rf"(?<=esource exhausted: ){_NO_MEMORY}.*",
                "Execution of replica 0 failed: Resource exhausted: Out of memory while trying to allocate 55 bytes.",
            ),
            (
                "OOM when allocating tensor",
                r"OOM when allocating tensor.*",
                "ResourceExhaustedError: OOM when allocating tensor with shape[64,1024] and type float",
            ),
            (
                "memory for the cache blocks",
                r"No available memory for the cache blocks.*",
                "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
            ),
            (
                "--mem-fraction-static",
                r"Not enough memory\W.*--mem-fraction-static.*",
                "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            ),
        )
    ),
    (
        "Xid (",
        (
            r"NVRM: (?P<reason>Xid \([^)]*\): "
            r"(?:13|31|32|38|48|61|62|64|69|74|79|94|95|1[1-4]\d|15[0578]|16[17]|17[12]|45(?=,.* previous Xid)),?.*)"
        ),
        "NVRM: Xid (PCI:0000:1b:00): 79, pid=4117, GPU has fallen off the bus.",
    ),
    (
        "SXid (",
        r"(?P<reason>SXid \([^)]*\): \d+,? (?!Non-fatal)(?:Fatal|Severity 1).*)",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    ),
)

PATTERNS = rows("device-error", _DEVICE)
