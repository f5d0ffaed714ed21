"""``python -m tests.measurements.run_faults``: how long after a fault of a rank a run names it, while it goes on.

An embedded run of four ranks each, in which rank 1 is stopped, sleeps before a collective, calls another collective
than the others, is held back for two thirds of the time (SIGSTOP and SIGCONT), or computes slowly; trainings too; and
as many runs without a fault. ``agent_faults`` plants what an agent sees.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import REPOSITORY, Command, started
from tests.measurements.table import print_table, write_json

RANK = 1
LIMIT_SECONDS = 5.0
_CALM_SECONDS, _PATIENCE_SECONDS = 2.0, 20.0
_STOPPED_SECONDS, _RUNNING_SECONDS = 0.02, 0.01
_SITE = str(REPOSITORY / "tests/faults/site")
ALSO_SAID = frozenset({"cpu-contention"})  # true of a machine that is not ours alone
_NODES = ("--nodes", "4", "--address", "local")
_RUN = ("run", *_NODES, "--suite", "all_reduce,all_gather", "--sizes", "64K:4M:2")
_CLEAN_STEPS = 60


def _train(model: str, steps: int = 100_000) -> tuple[str, ...]:
    return ("train", *_NODES, "--model", model, "--steps", str(steps), "--overlap-steps", "0")


Act = Callable[[Path, int], object]  # the file that ranks look for, the process of the rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is done to rank 1 at once, or again and again, and the rule that names it."""

    rule: str
    run: Sequence[str] = _RUN
    plant: Act = lambda *_: None
    again: Act = lambda *_: None


def _ask(action: str) -> Act:
    """Have the rank do it by itself: see ``tests/faults/site``."""

    def ask(due: Path, _: int) -> None:
        draft = due.with_name("draft")
        draft.write_text(f"{RANK} {action}", encoding="utf-8")
        draft.rename(due)

    return ask


def _hold_back(_: Path, pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(_STOPPED_SECONDS)
    os.kill(pid, signal.SIGCONT)


FAULTS: Mapping[str, Fault] = {
    "a rank is stopped": Fault(rule="rank-stalled", plant=lambda _, pid: os.kill(pid, signal.SIGSTOP)),
    "a rank sleeps before a collective": Fault(rule="rank-stalled", plant=_ask("sleep")),
    "a rank calls another collective": Fault(rule="rank-stalled", plant=_ask("mismatch")),
    "a rank has a third of its time": Fault(rule="slow-rank", again=_hold_back),
    "a rank of mlp computes slowly": Fault(rule="straggler", run=_train("mlp"), plant=_ask("slow")),
    "a rank of cnn computes slowly": Fault(rule="straggler", run=_train("cnn"), plant=_ask("slow")),
    "a rank of tiny computes slowly": Fault(rule="straggler", run=_train("tiny"), plant=_ask("slow")),
    "a rank of mlp has a third of its time": Fault(rule="straggler", run=_train("mlp"), again=_hold_back),
    "a rank of tiny has a third of its time": Fault(rule="straggler", run=_train("tiny"), again=_hold_back),
}


def main() -> int:
    """Measure, print, write. Returns 1 where a fault was named late, not or wrongly, or a clean run was not clean."""
    options = _options()
    wanted = {name: fault for name, fault in FAULTS.items() if options.only in name}
    rows, figures = [], {}
    for name, fault in wanted.items():
        seconds, said = measured(fault)
        figures[name] = {"seconds": seconds, "said": said}
        rows.append([name, fault.rule, "-" if seconds is None else f"{seconds:.1f} s", said])
    clean = [clean_run(CLEAN[number % len(CLEAN)]) for number in range(options.clean)]
    print_table("from the fault to the warning on the terminal", ["fault", "rule", "after", "said"], rows)
    print(f"  clean runs: {len(clean)}, with a warning: {[one for one in clean if one]}")
    write_json(options.output, "run_faults", {"faults": figures, "clean": clean})
    late = [one for one in figures.values() if not isinstance(one["seconds"], float) or one["seconds"] > LIMIT_SECONDS]
    return int(bool(late) or any(set(one) - ALSO_SAID for one in clean))


def measured(fault: Fault) -> tuple[float | None, str]:
    """Seconds from the fault to the first warning of its rule that names the rank and no other, and what it says."""
    with _running(fault.run) as (command, due):
        pid = command.wait_for(lambda: command.rank(RANK))
        command.wait_for(lambda: len(command.samples()) >= 1)
        time.sleep(_CALM_SECONDS)
        planted = time.monotonic()
        fault.plant(due, pid)
        while command.process.poll() is None and time.monotonic() - planted < _PATIENCE_SECONDS:
            with contextlib.suppress(ProcessLookupError):
                fault.again(due, pid)
            time.sleep(_RUNNING_SECONDS)
            told = next((one for one in _warnings(command) if one["rule"] == fault.rule), None)
            if told is not None:
                seconds = time.monotonic() - planted
                return (seconds if told["ranks"] == [RANK] else None), told["text"]
        return None, "-"


CLEAN = (_RUN, _train("mlp", 20 * _CLEAN_STEPS), _train("cnn", 2 * _CLEAN_STEPS), _train("tiny", _CLEAN_STEPS))


def clean_run(run: Sequence[str]) -> list[str]:
    """The rules of which a run without a fault warned."""
    with _running(run) as (command, _):
        command.process.wait(300)
        return [one["rule"] for one in _warnings(command)]


def _warnings(command: Command) -> Sequence[dict[str, Any]]:
    files = (folder / "warnings.jsonl" for folder in command.run_folders)
    lines = [line for file in files if file.exists() for line in file.read_text(encoding="utf-8").splitlines(True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


@contextlib.contextmanager
def _running(run: Sequence[str]) -> Iterator[tuple[Command, Path]]:
    """The run, and the file that its ranks look for."""
    with tempfile.TemporaryDirectory(prefix="rbf-") as folder:
        due = Path(folder) / "due"
        environment = {"PYTHONPATH": f"{_SITE}:{REPOSITORY}", "RAYBENCH_TEST_FAULT": str(due)}
        with started(*run, environment=environment) as command:
            yield command, due


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a word of the fault")
    parser.add_argument("--clean", type=int, default=20, help="runs without a fault")
    parser.add_argument("--output", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
