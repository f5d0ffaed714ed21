"""What nvidia-smi comes to show, where weights are gathered on other streams."""

from dataclasses import replace

import pytest

from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.estimate.report import estimate_report
from tests.performance_model.published_run import PublishedRun
from tests.performance_model.published_tables import other_runs

NAME = "memory that nvidia-smi may show"
RUNS = tuple(other_runs())


def published(source: str, *, offload: str) -> PublishedRun:
    """A source's row whose memory was read by nvidia-smi."""
    return next(
        run
        for run in RUNS
        if run.source == source and run.memory_bytes and run.request.setup.offload == offload
    )  # fmt: skip


def test_a_training_by_zero3_is_told_what_was_read_beside_what_it_needs() -> None:
    """Llama 3 8B with all offloaded needs 8 GiB, and nvidia-smi showed 13."""
    run = published("LLaMA-Factory 2024", offload="all")
    found = estimate(run.request)
    shown = float(estimate_report(found).basis[NAME].split()[2])
    assert shown == pytest.approx((run.memory_bytes or 0) / 2**30, rel=0.1)
    assert shown > 1.5 * found.peak / 2**30


def test_nothing_waits_for_a_stream_where_none_gathers() -> None:
    request = published("LLaMA-Factory 2024", offload="all").request
    for setup in (
        replace(request.setup, strategy="fsdp", on_streams=False),
        replace(request.setup, strategy="ddp", offload="none", lora_rank=8, on_streams=False),
    ):
        assert NAME not in estimate_report(estimate(replace(request, setup=setup))).basis


def test_nothing_is_said_where_it_does_not_fit_or_the_memory_is_unknown() -> None:
    request = published("LLaMA-Factory 2024", offload="all").request
    for memory in (None, 4 * 2**30):
        assert NAME not in estimate_report(estimate(replace(request, memory_bytes=memory))).basis
