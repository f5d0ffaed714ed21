"""The ways that the NCCL log names: P2P where NVLink is, GPUDirect where a NIC is; a silent log leaves them unknown."""

from pathlib import Path
from typing import Any

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.findings import Diagnosis, RankRow
from raybench.documents.selftest import DriverGpu
from raybench.services.selftest import paths
from raybench.services.selftest.check import RunReading
from tests.found import found
from tests.services.selftest.machine import after, collectives, diagnosis, driver, result, torch

CASES = Path(__file__).parents[2] / "diagnostics/cases/p2p-disabled"


def run_with(one: Diagnosis | None) -> RunReading:
    return RunReading(result=result(collectives()), diagnosis=one)


def with_links(count: int | None) -> Any:
    return driver(gpus=tuple(DriverGpu(uuid=f"GPU-{index}", name="NVIDIA H200", nvlinks=count) for index in range(2)))


@pytest.mark.parametrize(
    ("transports", "links", "verdict"),
    [
        (("P2P",), 18, "passed"),
        (("NET", "P2P"), 18, "passed"),
        (("SHM",), 18, "failed"),
        (("SHM",), 0, "passed"),  # PCIe across sockets: NCCL's own choice
        (("SHM",), None, "unknown"),
        ((), 18, "unknown"),
    ],
)
def test_gpus_that_nvlink_joins_use_it(transports: tuple[str, ...], links: int | None, verdict: str) -> None:
    readings = after("collectives", run_with(diagnosis(transports)), driver=with_links(links))
    assert paths.peer_to_peer(readings).result == verdict


@pytest.mark.parametrize(
    ("case", "verdict"),
    [("p2p_used", "passed"), ("env", "failed"), ("nvlink_fault", "failed")],
)
def test_the_way_is_read_from_recorded_logs(case: str, verdict: str) -> None:
    one = diagnose_paths([CASES / case / "input.log"])
    readings = after("collectives", run_with(one), driver=with_links(18))
    assert paths.peer_to_peer(readings).result == verdict


def test_a_rank_whose_log_is_silent_leaves_it_unknown() -> None:
    one = diagnosis(ranks=(RankRow(rank=0, transports=("P2P",)), RankRow(rank=1)))
    assert paths.peer_to_peer(after("collectives", run_with(one))).result == "unknown"
    assert paths.peer_to_peer(after("collectives", run_with(None))).result == "unknown"


@pytest.mark.parametrize(("gdr", "verdict"), [(True, "passed"), (False, "failed"), (None, "unknown")])
def test_gpudirect_is_what_the_log_says(gdr: bool | None, verdict: str) -> None:
    readings = after("network", run_with(diagnosis(("NET",), network="ib", gdr=gdr)))
    assert paths.gpu_direct(readings).result == verdict


def test_gpus_without_gpudirect_are_not_accused() -> None:
    gaming = torch(
        gpus=tuple(type(gpu)(**{**gpu.to_json(), "name": "NVIDIA GeForce RTX 4090"}) for gpu in torch().gpus)
    )
    readings = after("network", run_with(diagnosis(("NET",), network="ib", gdr=False)), torch=gaming)
    assert paths.gpu_direct(readings).result == "not-run"


def test_the_log_fails_with_a_critical_finding_and_says_warnings() -> None:
    def judged(one: Diagnosis | None) -> tuple[str, str]:
        outcome = paths.nccl_log(after("collectives", run_with(one)))
        return outcome.result, outcome.seen

    assert judged(diagnosis())[0] == "passed"
    critical = found(rule="tcp-fallback", severity="critical", summary="TCP is used although RDMA ports are up")
    assert judged(diagnosis(verdict="critical", findings=(critical,))) == ("failed", critical.summary)
    warning = found(rule="shm-too-small", severity="warning", summary="/dev/shm is small")
    verdict, seen = judged(diagnosis(verdict="warning", findings=(warning,)))
    assert (verdict, "warning: /dev/shm is small" in seen) == ("passed", True)
    assert judged(diagnosis(nccl_versions=("2.27.5", "2.19.3")))[0] == "failed"
    assert judged(diagnosis(nccl_versions=("2.19.3+cuda12.3",)))[0] == "failed"  # torch alone loads 2.27.5
    assert judged(diagnosis(nccl_versions=("2.27.5",)))[0] == "passed"
    assert judged(None)[0] == "unknown"
    assert judged(Diagnosis())[0] == "unknown"
