"""``sudo python -m tests.faults.planted``: every fault that is planted, who is named, and when.

One table: faults of ranks (``run_faults``), of machines as the agent sees them (``agent_faults``), and a link that is
held to a fraction of its rate while a run of collectives measures on four nodes of a lab. Then runs without a fault, on
one machine and on the lab's nodes, which must not warn of anything.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lab.cluster import Lab
from tests.lab_run import LabRun, lab_run
from tests.measurements import agent_faults, run_faults
from tests.measurements.table import print_table, write_json

LIMIT_SECONDS = 5.0
_NODES, _HIT = 4, 2
_CALM_SECONDS, _PATIENCE_SECONDS = 6.0, 25.0
_LONG = ("--suite", "all_reduce", "--sizes", "512K:4M:+16K", "--iters", "10", "--blocks", "5", "--timeout", "300")
_SHORT = ("--suite", "all_reduce,all_gather", "--sizes", "256K:1M:2", "--iters", "20", "--timeout", "90")
_LINKS = {"a link held to 20 Mbit/s": "20mbit", "a link held to 100 Mbit/s": "100mbit"}


def main() -> int:
    """Measure, print, write. Returns 1 where a fault was named late or not, or a clean run warned."""
    options = _options()
    rows = [_told(row) for row in _rows(options.only)]
    clean = Counter(rule for number in range(options.clean) for rule in _told_clean(number))
    told = [[name, who, "-" if seconds is None else f"{seconds:.1f} s", said] for name, who, seconds, said in rows]
    print_table("from the fault to its warning", ["fault", "culprit", "after", "said"], told)
    print(f"  clean runs: {options.clean}; warnings in them: {dict(clean) or 'none'}")
    write_json(options.output, "planted_faults", {"faults": [list(row) for row in rows], "clean": dict(clean)})
    late = [name for name, _, seconds, _ in rows if seconds is None or seconds > LIMIT_SECONDS]
    return int(bool(late) or bool(set(clean) - run_faults.ALSO_SAID))


Row = tuple[str, str, float | None, str]  # fault, culprit, seconds from it to its warning, what that said


def _told(row: Row) -> Row:
    """The table is printed at the end, which takes a while."""
    print(*row, sep="; ", file=sys.stderr, flush=True)
    return row


def _told_clean(number: int) -> list[str]:
    rules = _clean(number)
    print(f"clean run {number + 1}: {rules or 'no warning'}", file=sys.stderr, flush=True)
    return rules


def _rows(only: str) -> Iterator[Row]:
    for name, fault in run_faults.FAULTS.items():
        if only in name:
            seconds, said = run_faults.measured(fault)
            yield name, f"rank {run_faults.RANK}", seconds, said
    for name, machine_fault in agent_faults.FAULTS.items():
        if only in name:
            seconds, said, _ = agent_faults.measured(machine_fault)
            yield name, machine_fault.culprit, seconds, said
    for name, rate in _LINKS.items():
        if only in name:
            yield (name, f"node{_HIT}", *_of_link(rate))


def _of_link(rate: str) -> tuple[float | None, str]:
    """Seconds from the moment at which a node's link is held to a rate to the first word on it, and what that is."""
    with Lab(nodes=_NODES) as lab:
        lab.start_ray(cpus_per_node=1)
        with lab_run(lab, *_LONG, "--nodes", str(_NODES)) as run:
            run.wait_for_points(1)
            time.sleep(_CALM_SECONDS)
            before = len(_warnings(run))
            planted = time.monotonic()
            lab.shape(lab.nodes[_HIT - 1], rate)
            while run.process.poll() is None and time.monotonic() - planted < _PATIENCE_SECONDS:
                for one in _warnings(run)[before:]:
                    if one["rule"] == "slow-tcp-paths":
                        named = one["hosts"] == [f"node{_HIT}"]
                        return time.monotonic() - planted if named else None, one["text"]
                time.sleep(0.05)
            return None, "-"


def _clean(number: int) -> list[str]:
    """The rules that warned in a run without a fault: every other one is over the nodes of a lab."""
    if number % 2:
        return run_faults.clean_run(run_faults.CLEAN[number // 2 % len(run_faults.CLEAN)])
    nodes = 3 + number // 2 % 2
    with Lab(nodes=nodes) as lab:
        lab.start_ray(cpus_per_node=1)
        with lab_run(lab, *_SHORT, "--nodes", str(nodes)) as run:
            run.finish(150)
            return [one["rule"] for one in _warnings(run)]


def _warnings(run: LabRun) -> Sequence[Mapping[str, Any]]:
    return read_warnings(run.folder.glob("runs/*/warnings.jsonl"))


def read_warnings(files: Iterator[Path]) -> list[dict[str, Any]]:
    """Whole lines of these files."""
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines(keepends=True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a word of the fault")
    parser.add_argument("--clean", type=int, default=20, help="runs without a fault")
    parser.add_argument("--output", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
