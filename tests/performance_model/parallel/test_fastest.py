"""How fast a cut model can be at most, against each way of it that is estimated."""

from dataclasses import replace
from typing import Any

import pytest

from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.request.cuts import cut_requests
from raybench.performance_model.ways.fastest import fastest_tokens_per_second
from raybench.performance_model.ways.to_train import ways_to_train
from raybench.performance_model.ways.way import Way
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request

MACHINES: dict[str, dict[str, Any]] = {
    "llama-70b": {"model": "llama-70b", "world_size": 16, "node_type": "p5.48xlarge"},
    "mixtral-8x7b": {"model": "mixtral-8x7b", "world_size": 16, "node_type": "p4d.24xlarge"},
    "Qwen3-30B-A3B": {"model": "Qwen/Qwen3-30B-A3B", "world_size": 16, "gpu": "B200", "nics": 8, "nic_gbit": 400.0},
    "a rack": {"model": "Qwen/Qwen3-30B-A3B", "world_size": 16, "gpus_per_node": 4, "gpu": "GB200"},
    "a rack with its NICs": {"model": "llama-70b", "world_size": 16, "gpus_per_node": 4, "gpu": "GB300", "nics": 4,
                             "nic_gbit": 800.0},
    "a fabric that nobody says": {"model": "llama-8b", "world_size": 16, "gpu": "RTX 4090", "memory": "80G"},
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("again", [False, True], ids=["kept", "computed again"])
def test_no_micro_batch_is_faster(name: str, again: bool) -> None:
    request = estimate_request(EstimateOptions(**MACHINES[name]))
    samples, tried = 64, 0
    for one in list(cut_requests(request))[::2]:
        asked = replace(one, setup=replace(one.setup, checkpointing=again))
        most = max(1, samples // (4 * one.layout.pipeline)) if one.layout.pipeline > 1 else samples
        bound = fastest_tokens_per_second(asked, samples, most)
        for batch in (1, 4, 16, 64):
            if batch <= most and (samples // batch) % one.layout.pipeline == 0:
                setup = replace(asked.setup, batch_size=batch)
                found = estimate(replace(asked, setup=setup, accumulation=samples // batch), alone=False)
                assert Way(estimate=found, fits=True).fused <= 1.02 * bound, (one.layout, batch)
                tried += 1
    assert tried > 15


def test_a_plan_has_none_slower_that_cuts_the_model_where_one_is_much_faster() -> None:
    """What cannot be as fast is not estimated; the ways that are told are within a few hundredths of the best."""
    request = estimate_request(EstimateOptions(model="mixtral-8x7b", world_size=32, node_type="p5.48xlarge"))
    cut = [way for way in ways_to_train(request, 256) if way.estimate.request.layout.is_cut]
    assert len(cut) > 1
    assert all(way.fits for way in cut)
    assert max(way.fused for way in cut) <= 1.2 * min(way.fused for way in cut)
