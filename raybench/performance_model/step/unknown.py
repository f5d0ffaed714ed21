"""What an estimate cannot say, and what to give for it."""

from raybench.performance_model.step.request import EstimateRequest


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
