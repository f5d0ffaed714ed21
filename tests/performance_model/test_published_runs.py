"""Estimates against runs that others published: what ran is never told that it does not fit."""

import csv
from dataclasses import replace

import pytest

from raybench.performance_model.estimate.estimate import estimate
from tests.performance_model.published_run import FOLDER
from tests.performance_model.published_runs import PublishedRun, published_runs
from tests.performance_model.random_halves import Held, errors, fitted, judged, splits

RUNS = tuple(published_runs())
FULL = tuple(run for run in RUNS if run.source == "llm-foundry")


def test_every_row_of_the_tables_is_read() -> None:
    assert [sum(run.source == source for run in RUNS) for source in ("llm-foundry", "Qwen")] == [209, 42]


def test_no_run_that_was_done_is_told_that_it_does_not_fit() -> None:
    wrong = [run.name for run in RUNS if estimate(run.request).fits is False]
    assert wrong == []


def test_with_the_loss_and_kernels_that_ran_nearly_all_fit_and_the_rest_are_tight() -> None:
    told = [
        estimate(replace(run.request, setup=replace(run.request.setup, kernels="fused", loss="fused"),
                         kernels_known=True, loss_known=True)).fits
        for run in FULL
    ]  # fmt: skip
    assert sum(answer is True for answer in told) >= 0.9 * len(told)
    assert False not in told


def test_twice_the_batch_of_most_runs_does_not_fit() -> None:
    """Their micro-batches were the largest that fit: a bound that takes all for fitting would be none."""
    doubled = [
        replace(run.request, setup=replace(run.request.setup, batch_size=2 * run.request.setup.batch_size,
                                           kernels="fused", loss="fused"))
        for run in FULL
    ]  # fmt: skip
    assert sum(estimate(request).memory.peak > (request.memory_bytes or 0) for request in doubled) > len(FULL) / 2


def test_a_model_of_the_tables_has_one_shape() -> None:
    """LLaMA 65B was there with 32,000 words and with the 32,004 of Megatron-Kwai, and the last row won."""
    with (FOLDER / "models.csv").open() as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert len(names) > 100
    assert len(set(names)) == len(names)


def test_parameters_are_counted_as_published() -> None:
    for run in RUNS:
        assert run.request.model.parameters == pytest.approx(run.parameters, rel=1e-3)


def kind(run: PublishedRun) -> str:
    """What the estimate distinguishes."""
    setup = run.request.setup
    trained = "qlora" if setup.quantized else "lora" if setup.lora_rank else "full"
    return f"{trained} {'recomputed' if setup.checkpointing else 'kept'}"


@pytest.mark.parametrize("of", sorted({kind(run) for run in RUNS}))
def test_nine_of_ten_step_times_are_within_bounds_that_say_something(of: str) -> None:
    """The constants were fitted to these very rows: this guards the fit, it does not prove it on others."""
    inside, widths = [], []
    for run in RUNS:
        if kind(run) == of:
            low, high = estimate(run.request).step_seconds or (0.0, 0.0)
            inside.append(low <= run.step_seconds <= high)
            widths.append(high / low)
    assert sum(inside) >= 0.9 * len(inside)
    # within bounds 1.6 wide four in five of new sources were; of eager programs with adapters, 256 tokens are starts.
    # Up to 8 % wider than the calibration has them: they hold for whatever is said as well (step/test_order.py), and
    # factors of the slow side are 2 % more since what is known of computation counts for that alone; and the median is
    # one percent more with 17 rows of tensor ranks without sequence parallelism (Nebius), which wait for all they send,
    # and of adapters, whose slow side those calibrated anew
    assert sorted(widths)[len(widths) // 2] <= {"lora recomputed": 2.34, "qlora recomputed": 1.96}.get(of, 2.08)


def test_memory_of_published_adapters_is_near() -> None:
    errors = [
        abs(estimate(run.request).memory.peak / run.memory_bytes - 1) for run in RUNS if run.memory_bytes is not None
    ]
    assert len(errors) == 42
    assert sorted(errors)[21] <= 0.08
    assert sorted(errors)[37] <= 0.2


def test_a_share_is_fitted_to_sources_that_have_one_vote_each() -> None:
    """Three rows of one source need half of what comes and goes, the others' 0.1 and 0.2; what was allocated, none."""
    rows = [
        Held(source=source, kind="device", name=name, fits=True, room=0.1, estimated=100.0, measured=more + 100.0,
             dynamic=100.0, share=0.0)
        for source, name, more in (("a", "kept", 50.0), ("a", "kept", 50.0), ("a", "kept", 50.0), ("b", "kept", 10.0),
                                   ("c", "kept", 20.0), ("d", "", 90.0))
    ]  # fmt: skip
    assert fitted(rows) == pytest.approx({"kept": 0.2})
    off = errors(rows, fitted(rows))
    assert off["c"] == pytest.approx([0.0])
    assert off["a"] == pytest.approx([120 / 150 - 1] * 3)
    assert off["d"] == pytest.approx([100 / 190 - 1])


def test_random_halves_are_judged_by_the_sources_that_they_do_not_have() -> None:
    """Of four sources with a room each of their own: what has less than the other half's widest is no promise."""
    rows = [
        Held(source=name, kind="device", name="", fits=False, room=room, estimated=1.0, measured=1.0)
        for name, room in (("a", 0.0), ("b", 0.1), ("c", 0.2), ("d", 0.3))
    ]
    assert judged(rows[:2], rows[2:]).promised == 2
    assert judged(rows[2:], rows[:2]).promised == 0
    assert {one.failed for one in splits(rows, 5)} == {2}
