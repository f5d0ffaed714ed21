"""Whole logs of a real NCCL over an emulated GPU, as carriers bring them: what is on top stays on top."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths

LOGS = [
    path.parent / "input.log"
    for path in sorted(Path(__file__).parent.glob("cases/*/emulated_*/expected.json"))
    if json.loads(path.read_text())["fires"]
]

CARRIERS: dict[str, Callable[[str], str]] = {
    "docker": lambda line: json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-01-02T03:04:05.6Z"}),
    "container runtime": lambda line: f"2026-01-02T03:04:05.678901234Z stdout F {line}",
    "kubectl with time stamps": lambda line: f"2026-01-02T03:04:05.678901234Z {line}",
    "syslog": lambda line: f"Jan  2 03:04:05 login1 train[123]: {line}",
    "srun": lambda line: f"8: {line}",
    "mpirun": lambda line: f"[1,8]<stdout>:{line}",
    "colours": lambda line: f"\x1b[36m(pid=1)\x1b[0m {line}",
    "ray": lambda line: f"(RayTrainWorker pid=1, ip=10.0.0.1) {line}",
    "carriage returns": lambda line: f"{line}\r",
    "log collector": lambda line: json.dumps({"ts": 1, "level": "info", "msg": line}),
}


# Every day each carrier brings every other log, so that each log comes by five of them.
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_what_is_on_top_stays_on_top(carrier: str, half: int, tmp_path: Path) -> None:
    carried = tmp_path / "job.log"
    wrong = []
    for log in LOGS[(list(CARRIERS).index(carrier) + half) % 2 :: 2]:
        lines = log.read_text().splitlines()
        carried.write_text("\n".join(map(CARRIERS[carrier], lines)) + "\n", newline="")
        diagnosis = diagnose_paths([carried])
        top = diagnosis.findings[0].rule if diagnosis.findings else None
        if top != log.parts[-3]:
            wrong.append(f"{log.parts[-3]}/{log.parts[-2]}: {top}, {diagnosis.verdict}")
    assert not wrong
