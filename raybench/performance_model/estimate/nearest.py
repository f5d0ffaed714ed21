"""The nearest training that fits, where a request does not: each run tried as it would be asked for."""

from dataclasses import replace

from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.nearest.fit import Fitting, NearestFit, nearest_fit
from raybench.performance_model.request.forms import most_peak
from raybench.performance_model.request.request import EstimateRequest, sure_bytes
from raybench.performance_model.request.taken import decided_anew, refused


def nearest_of(request: EstimateRequest) -> NearestFit | None:
    """Of a request that does not fit. What the program of each run decides is decided anew."""
    asked = request.asked or request

    def peak_of(run: Fitting) -> int | None:
        one = replace(
            asked,
            setup=run.setup,
            layout=run.layout,
            accumulation=run.accumulation,
            program=run.program,
            kernels_known=asked.kernels_known or "kernels" in run.said,
            loss_known=asked.loss_known or "loss" in run.said,
            checkpointing_known=True,
        )
        if one.layout.is_cut and not asked.layout.is_cut and "gradient_bytes" not in asked.said:  # as options have it
            one = replace(one, setup=replace(one.setup, gradient_bytes=2 if one.dtype == "fp16" else 4))
        if "reduces_last" in asked.said:
            one = replace(one, setup=replace(one.setup, whole_gradients=one.accumulation > 1))
        one = decided_anew(one)
        if one.program is not None and refused(one.program, one) is not None:
            return None
        memory = estimate_memory(one.model, one.setup, one.layout, accumulation=one.accumulation)
        return most_peak(one, memory.peak)

    ask = Fitting(
        model=asked.model,
        setup=replace(asked.setup, checkpointing=request.setup.checkpointing),
        layout=asked.layout,
        accumulation=asked.accumulation,
        program=asked.program,
        peak_of=peak_of,
        recomputes_anyway=request.setup.checkpointing and not asked.setup.checkpointing,
    )
    found = nearest_fit(ask, request.sure_bytes)
    return None if found is None else _of_its_size(found, request)


def _of_its_size(found: NearestFit, request: EstimateRequest) -> NearestFit:
    """With the memory of the GPU said, where others of that name have too little for it."""
    peak, gpu = found.run.peak, request.gpu
    if gpu is None or peak is None or all(peak <= sure_bytes(size) for size in request.other_sizes):
        return found
    return replace(found, options=(*found.options, f"--memory {gpu.memory_gb:g}G"))
