"""The verdict of a selftest: a pass on CPUs is never one of GPUs, and what failed or is unknown is never ok."""

from collections.abc import Sequence
from typing import Any

import pytest

from raybench.documents.part import document_as
from raybench.documents.selftest import CheckResult, DriverReading, SelftestCheck, SelftestReport, TorchReading


def check(name: str, result: CheckResult, *needs: str, **changes: Any) -> SelftestCheck:
    return SelftestCheck(
        id=name, title=name, proves="", needs=needs, limit_seconds=60.0, result=result, seen=f"{name} seen", **changes
    )


def report(checks: Sequence[SelftestCheck], **changes: Any) -> SelftestReport:
    values: dict[str, Any] = {
        "selftest_id": "20261123-060000-aaaa",
        "hostname": "gpu-01",
        "started_at": "2026-11-23T06:00:00+00:00",
        "finished_at": "2026-11-23T06:00:30+00:00",
        "versions": {"torch": "2.13.0"},
        "backend": "gloo",
        "gpus": 0,
        "gpu_asked": False,
        "stopped": False,
        "driver": DriverReading(),
        "torch": TorchReading(),
        "checks": tuple(checks),
    }
    return SelftestReport(**(values | changes))


ELEVEN = [check(f"gpu-{index}", "not-run", "gpu") for index in range(11)]
PASSED, GPU = check("collectives", "passed"), check("torch-cuda", "not-run", "nvidia")


@pytest.mark.parametrize(
    ("made", "code", "reason"),
    [
        (
            report([PASSED, GPU]),
            0,
            "1 of 2 checks passed on CPUs alone over gloo; NO GPU PROVED, 1 check not run that needs one",
        ),
        (
            report([PASSED, *ELEVEN]),
            0,
            "1 of 12 checks passed on CPUs alone over gloo; NO GPU PROVED, 11 checks not run that need one",
        ),
        (report([PASSED], gpus=8, backend="nccl"), 0, "1 of 1 checks passed on 8 GPUs over nccl"),
        (
            report([PASSED, check("gpu-direct", "not-run", "rdma")], gpus=2, backend="nccl"),
            0,
            "1 of 2 checks passed on 2 GPUs over nccl; not run: gpu-direct",
        ),
        (
            report([PASSED, check("memory", "not-run")]),
            0,
            "1 of 2 checks passed on CPUs alone over gloo; left out: memory",
        ),
        (
            report([PASSED, check("memory", "failed"), check("cudnn", "unknown", "gpu")]),
            1,
            "1 of 3 checks failed: memory",
        ),
        (report([PASSED, check("memory", "unknown")]), 3, "1 check passed; unknown: memory"),
        (report([PASSED, GPU], gpu_asked=True), 3, "--gpu: no GPU that torch can use (torch-cuda seen)"),
        (
            report([PASSED, check("torch-cuda", "failed", "nvidia")], gpu_asked=True),
            1,
            "1 of 2 checks failed: torch-cuda",
        ),
        (report([PASSED, GPU], stopped=True), 3, "stopped by the user after 1 check"),
        (report([GPU]), 3, "no check could be run here; NO GPU PROVED, 1 check not run that needs one"),
    ],
)
def test_the_verdict_says_what_was_proved_and_what_was_not(made: SelftestReport, code: int, reason: str) -> None:
    assert (made.exit_code, made.conclusion.reason) == (code, reason)


def test_it_is_read_as_it_was_written() -> None:
    written = report([PASSED, check("memory", "failed", figures={"off": 0.07, "what": None}, next_step="report it")])
    content = written.to_json()
    assert (content["schema"], content["verdict"]) == ("raybench.selftest/1", "critical")
    assert document_as(SelftestReport, content, "it") == written
