"""Step times of models with experts against published trainings, which their bounds are from.

``../published/experts.csv``; what each source is stands in the README beside it.
"""

import math
from dataclasses import replace
from statistics import median

import pytest

from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.step.spreads import SPREADS
from tests.performance_model.parallel.experts_fit import (
    CLASS,
    ROWS,
    asked,
    calibrated_experts,
    estimated,
    experts_runs,
    left_out,
    needs,
    program_of,
)


def test_the_factors_of_experts_are_those_of_what_was_published() -> None:
    found = calibrated_experts(needs())
    assert (found.slow, found.fast) == pytest.approx((SPREADS[CLASS].slow, SPREADS[CLASS].fast), rel=2e-3)


def test_nine_in_ten_are_inside_by_factors_of_other_sources_and_of_other_programs() -> None:
    """Half of the rows are of Megatron-Bridge, without which the others say less."""
    for group in (str, program_of):
        outcomes = left_out(group)
        assert sum(bool(one.inside) for one in outcomes) >= 0.82 * len(outcomes)  # AWS's twelve on 256 B300 are out
        sources = {one.source for one in outcomes}
        shares = [[bool(one.inside) for one in outcomes if one.source == source] for source in sources]
        assert sum(sum(own) / len(own) for own in shares) / len(shares) >= 0.87
        assert median(one.width or math.inf for one in outcomes) < 2.4


def test_the_middle_of_the_bounds_is_near_what_was_published() -> None:
    ratios = [
        (run.step_seconds or 0.0) / (estimate(run.request, alone=False).likely_step_seconds or math.inf)
        for run in experts_runs()
    ]
    assert median(ratios) == pytest.approx(1, abs=0.06)
    assert sum(abs(math.log(ratio)) for ratio in ratios) / len(ratios) < 0.24


def test_experts_of_other_nodes_take_each_rank_s_own_nic() -> None:
    """Of gpt-oss-120b on 64 B200 experts over eight nodes were told 2.4 times the published speed."""
    row = next(row for row in ROWS if row["gpu"] == "B200" and row["expert"] == "64")
    near = estimated({**row, "expert": "8"})
    spread = estimated(row)
    assert (spread.likely_step_seconds or 0.0) > 1.3 * (near.likely_step_seconds or math.inf)


@pytest.mark.parametrize(
    ("dispatcher", "least", "most"), [("alltoall", 1.0, 1.8), ("deepep", 0.45, 0.45), ("", 0.45, 1.8)]
)
def test_a_token_goes_once_to_each_node_or_each_copy_of_it_by_nccl(dispatcher: str, least: float, most: float) -> None:
    """Eight of 128 experts over four nodes: 4 (1 - (3/4)^8) = 3.6 of eight copies. Where nobody says, either."""
    row = next(row for row in ROWS if row["source"].startswith("XTuner") and row["expert"] == "32")
    told = estimated({**row, "dispatcher": dispatcher})
    sent = {(one.least_times, one.most_times) for one in told.traffic.messages if one.operation == "all_to_all"}
    assert [pytest.approx((least, most), abs=0.01)] == list(sent)
    inside = estimated({**row, "expert": "8", "dispatcher": dispatcher})
    assert {one.most_times for one in inside.traffic.messages if one.operation == "all_to_all"} == {1.0}


def test_where_nobody_says_who_sends_tokens_the_bounds_hold_for_either() -> None:
    row = next(row for row in ROWS if row["source"].startswith("XTuner") and row["expert"] == "32")
    either, by_nccl, once = (
        estimated({**row, "dispatcher": said}).step_seconds or (math.inf, 0.0) for said in ("", "alltoall", "deepep")
    )
    assert either == pytest.approx((once[0], by_nccl[1]))
    assert once[1] < by_nccl[1]


def test_exchanges_hide_behind_another_micro_batch_only_where_they_may() -> None:
    """--overlap-moe-expert-parallel-comm; the bounds of who does not say it hold for either."""
    row = next(row for row in ROWS if row["source"].startswith("XTuner") and row["expert"] == "32")
    told = [estimated({**row, "dispatcher": "alltoall", "overlapped": said}) for said in ("", "yes", "no")]
    either, beside, waiting = (one.step_seconds or (math.inf, 0.0) for one in told)
    assert beside[0] < 0.9 * waiting[0]
    assert either[0] <= min(beside[0], waiting[0])
    assert either[1] >= max(beside[1], waiting[1])
    assert waiting[1] / waiting[0] < 0.8 * either[1] / either[0]


def test_experts_that_are_not_forced_to_be_balanced_may_wait_for_the_one_with_most_tokens() -> None:
    """Only where ranks share them; the likely step is the same."""
    row = next(row for row in ROWS if row["gpu"] == "H100" and row["expert"] == "8")
    free, forced = (estimated({**row, "balanced": said}) for said in ("", "yes"))
    assert free.likely_step_seconds == pytest.approx(forced.likely_step_seconds)
    (low, high), (least, most) = (one.step_seconds or (0.0, 0.0) for one in (free, forced))
    assert low == pytest.approx(least)
    assert 1.1 * most < high < 2.5 * most
    alone, same = (estimated({**row, "expert": "1", "balanced": said}).step_seconds for said in ("", "yes"))
    assert alone == pytest.approx(same)


def test_a_recipe_without_cuda_graphs_waits_for_the_kernels_of_latent_attention_too() -> None:
    """DeepSeek-V3 on 128 and 512 GB200 by NeMo's recipe of May 2025, which captures none: 2.7 times as long as told."""
    rows = [row for row in ROWS if row["source"] == "dgxc-benchmarking 25.05" and row["gpu"] == "GB200"]
    for row in (one for one in rows if one["model"] == "deepseek-ai/DeepSeek-V3"):
        captured, not_captured = (estimated({**row, "captured": said}) for said in ("yes", "no"))
        assert (not_captured.likely_step_seconds or 0.0) > 1.8 * (captured.likely_step_seconds or math.inf)
        low, high = estimated(row).step_seconds or (math.inf, 0.0)
        run = next(one for one in experts_runs() if one.request == asked(row))
        assert low < (run.step_seconds or 0.0) < high


def test_nvlink_joins_the_nodes_of_a_rack() -> None:
    """256 GB300 in trays of four, of which nobody says the network: 32 ranks of experts are in one rack."""
    row = next(row for row in ROWS if row["gpu"] == "GB300" and row["world_size"] == "256")
    ask = asked(row)
    opened = estimate(replace(ask, network=replace(ask.network, fabric_gb_per_s=None)))  # type: ignore[type-var]
    bounds = opened.step_seconds or (1.0, math.inf)
    assert bounds[1] / bounds[0] < 2.5
    exchanges = [one for one in opened.traffic.messages if one.operation == "all_to_all"]
    assert {one.group.nodes for one in exchanges} == {1}


def test_a_dense_model_has_narrower_bounds_and_says_so() -> None:
    dense = {**ROWS[0], "model": "Qwen/Qwen3-8B", "expert": "1"}
    for row, words, most in ((ROWS[0], "models with experts", 2.2), (dense, "published trainings on H100", 2.0)):
        efficiency = estimated(row).step.efficiency
        assert words in efficiency.source
        assert efficiency.high / efficiency.low < most
