"""How fast a cut model can be at most, whatever fits: cheaper than an estimate, so that many need none."""

import math
from dataclasses import replace

from raybench.performance_model.parallel.part import bubble_share
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.step.bounds import computation_of, fitted_steps, peak_tflops
from raybench.performance_model.step.links import linked_layout
from raybench.performance_model.step.traffic import training_traffic


def fastest_tokens_per_second(request: EstimateRequest, samples: int, most: int) -> float:
    """Over all ranks, with kernels that are sure to be fused; 0 where the times are not known.

    Of micro-batches of ``most`` samples, the largest there may be, of which none is slower for each sample: all is
    hidden that can be, and no stage waits. ``samples``: of a step and a replica.
    """
    times = math.ceil(samples / most)
    setup = replace(request.setup, batch_size=most)
    asked = replace(request, setup=setup, accumulation=times)
    efficiency = computation_of(asked)
    traffic = training_traffic(
        asked.model, setup, linked_layout(asked), accumulation=times, reduce_bytes=asked.reduce_bytes
    )
    steps = fitted_steps(replace(asked, efficiency=efficiency), traffic, peak_tflops(asked))
    least = [fastest.least for fastest, _ in steps]
    if not least:
        return 0.0
    seconds = math.prod(least) ** (1 / len(least)) / (1 + bubble_share(asked.layout, times))
    return most * times * setup.sequence_length * asked.layout.data * (1 + efficiency.unsure) / seconds
