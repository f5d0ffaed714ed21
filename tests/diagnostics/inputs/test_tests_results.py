"""The result file of nccl-tests is read as the table that it prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from diagnostics.engine import diagnose_paths

HALF = {"time": 31.2, "alg_bw": 33.6, "bus_bw": 63.0, "nwrong": 0.0}
ROW = {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "    -1"}
DEVICE = {"rank": 0, "group": 0, "pid": 41, "hostname": "n1", "device": 0, "device_hex": "0000:1b:00"}
DOCUMENT: dict[str, Any] = {
    "version": 3,
    "start_time": "2026-07-01 10:00:00",
    "args": ["./all_reduce_perf"],
    "env": ["PATH=/bin", "NCCL_IB_HCA=mlx5_0"],
    "nccl_version": 22807,
    "config": {"nthreads": 1, "ngpus": 1, "minimum_bytes": 8, "maximum_bytes": 1048576, "step_factor": 2,
               "devices": [{**DEVICE, "device_info": "NVIDIA H100"}]},
    "results": [{**ROW, "out_of_place": HALF, "in_place": HALF}],
    "out_of_bounds": {"count": 0, "okay": "true"},
    "average_bus_bandwidth": {"bandwidth": 63.0, "okay": "unchecked"},
    "errors": [],
    "end_time": "2026-07-01 10:01:00",
}  # fmt: skip
BAD = {"out_of_bounds": {"count": 3, "okay": "false"}}
SLOW = {"average_bus_bandwidth": {"bandwidth": 1.5, "okay": "false"}}
EARLY = {key: value for key, value in DOCUMENT.items() if key not in ("out_of_bounds", "average_bus_bandwidth")}
UNANSWERED = (
    "NET/IB: Got completion from peer 10.0.0.2<4> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0"
)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("document", "verdict", "top"),
    [
        (DOCUMENT, "ok", "log-too-quiet"),
        (DOCUMENT | BAD, "critical", "run-failed"),
        (DOCUMENT | SLOW, "critical", "run-failed"),
        (EARLY, "critical", "run-failed"),
        (EARLY | {"errors": [UNANSWERED]}, "critical", "ib-retry-exceeded"),
        (DOCUMENT | {"results": [{**ROW, "out_of_place": None, "in_place": HALF}]}, "ok", "log-too-quiet"),
    ],
)
def test_a_result_file_tells_what_its_table_does(
    tmp_path: Path, document: dict[str, Any], verdict: str, top: str, indent: int | None
) -> None:
    (tmp_path / "out.json").write_text(json.dumps(document, indent=indent))
    diagnosis = diagnose_paths([tmp_path / "out.json"])
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == (verdict, top)
    assert diagnosis.nccl_versions == ("2.28.7",)


@pytest.mark.parametrize("keep", [300, 700])
def test_a_result_file_that_breaks_off_is_never_ok(tmp_path: Path, keep: int) -> None:
    (tmp_path / "out.json").write_text(json.dumps(DOCUMENT)[:keep])
    diagnosis = diagnose_paths([tmp_path / "out.json"])
    assert diagnosis.verdict == "unknown"
    assert "a result file of nccl-tests that breaks off" in diagnosis.notes[0]


@pytest.mark.parametrize("part", [{"results": 7}, {"config": {"nthreads": "x"}}, {"nccl_version": None}, {"env": 1}])
def test_a_document_of_another_form_is_no_error(tmp_path: Path, part: dict[str, Any]) -> None:
    (tmp_path / "out.json").write_text(json.dumps(DOCUMENT | part))
    assert diagnose_paths([tmp_path / "out.json"]).verdict == "unknown"
