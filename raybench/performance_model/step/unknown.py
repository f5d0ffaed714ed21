"""What an estimate cannot say, and what to give for it."""

from raybench.performance_model.step.output_layer import padded_vocabulary
from raybench.performance_model.step.request import EstimateRequest
from raybench.performance_model.work import has_slower_attention


def unknown_of(request: EstimateRequest, peak: float | None) -> tuple[str, ...]:
    """Each figure that is missing, and why; ``peak``: of the GPU for the type, TFLOP/s."""
    reasons = []
    if request.network is None:
        reasons.append(f"times: {request.network_unknown or 'nothing is known of the network'}")
    if request.gpu is None:
        reasons.append("step time, throughput and MFU: the GPU is not known; give --gpu or --node-type")
    elif peak is None:
        instead = next((name for name in ("bf16", "fp16") if request.gpu.peak_tflops(name)), None)
        why = f"step time, throughput and MFU: {request.gpu.name} has no peak for {request.dtype}"
        reasons.append(why + (f"; give --dtype {instead}" if instead else ""))
    if request.memory_bytes is None:
        reasons.append("whether it fits: the memory of the GPU is not known; give --gpu or --memory")
    if request.price is None:
        reasons.append("cost: no price; give --price or a --node-type with a list price")
    return tuple(reasons)


def unsaid_of(request: EstimateRequest) -> dict[str, str]:
    """What nobody says and widens the step's bounds: they hold either way, and said they are narrower."""
    setup, gpu = request.setup, request.gpu
    of_kernels = setup.has_separate_kernels is None and bool(setup.compiled is None)
    open_attention = gpu is not None and has_slower_attention(gpu, setup) and setup.native_attention is None
    options = [
        name
        for name, is_open in (
            ("--compile", of_kernels),
            ("--kernels", of_kernels),
            ("--loss", setup.loss_open),
            ("--native-attention", open_attention),
        )
        if is_open
    ]
    return {"not said": f"{', '.join(options)}: the step's bounds hold either way"} if options else {}


def slow_of(request: EstimateRequest) -> dict[str, str]:
    """What makes a step slower than it needs to be: a vocabulary that few kernels take."""
    padded = padded_vocabulary(request.model) if request.setup.compute_bytes == 2 else None
    if padded is None:
        return {}
    words = f"{request.model.vocabulary:,} words are no multiple of 8, which is slow"
    return {"vocabulary": f"{words}; pad it (--vocabulary {padded})"}
