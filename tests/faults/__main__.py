"""Seeded faults into real commands: ``python -m tests.faults --seed 1 --count 100``.

Each case starts a command on an embedded cluster, waits for a phase, and kills, stops, signals or disturbs one of its
processes. Exit code 0: every command ended in time, with the right exit code, nothing left, and the culprit named in
at least 95 % of the cases that have one.
"""

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.faults.commands import WORKLOADS
from tests.faults.judge import complaints
from tests.faults.plan import PHASES, Fault, faults
from tests.faults.plant import Ending, plant

_CULPRIT_SHARE = 0.95


def main() -> int:
    """Run the campaign. Returns the exit status."""
    options = _options()
    # Under nohup, and in the background of a script, these are ignored, by every command that is started as well.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = faults(options.seed, options.count, options.workloads.split(","))
    if options.only:
        wanted = {int(one) for one in options.only.split(",")}
        chosen = [one for one in chosen if one.number in wanted]
    begun = time.monotonic()
    with ThreadPoolExecutor(options.side_by_side) as pool:
        rows = list(pool.map(lambda one: _case(one, len(chosen), options.verbose), chosen))
    _print_table(rows)
    print(f"{len(rows)} faults, seed {options.seed}, {time.monotonic() - begun:.0f} s")
    if options.json:
        Path(options.json).write_text("".join(json.dumps(_row(*row)) + "\n" for row in rows), encoding="utf-8")
    return _status(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="of %(default)s")
    parser.add_argument("--only", help="numbers of cases, such as 3,17")
    parser.add_argument("--side-by-side", type=int, default=1, help="cases at a time [default: %(default)s]")
    parser.add_argument("--json", help="a file for one line of JSON a case")
    parser.add_argument("--verbose", action="store_true", help="what a failed case printed")
    return parser.parse_args()


def _case(fault: Fault, count: int, verbose: bool) -> tuple[Fault, Ending, list[str]]:
    ending = plant(fault)
    found = complaints(fault, ending) if ending.planted else []
    what = f"{fault.workload:10} {fault.phase:9} +{fault.delay_seconds:.2f} s  {fault.target:9} {fault.action:12}"
    outcome = "; ".join(found) or ("ok" if ending.planted else _not_planted(ending))
    print(f"[{fault.number}/{count}] {what} exit {ending.status} after {ending.seconds:5.1f} s  {outcome}", flush=True)
    if found and verbose:
        print(ending.text[-4000:], flush=True)
    return fault, ending, found


def _not_planted(ending: Ending) -> str:
    if ending.status is None and not ending.seconds:
        return f"not planted: {' '.join(ending.text.split())[:300]}"
    return "not planted: it had ended, or there is no such process"


def _print_table(rows: Sequence[tuple[Fault, Ending, list[str]]]) -> None:
    """By fault and phase: well ended of planted."""
    planted = [(fault, found) for fault, ending, found in rows if ending.planted]
    kinds = sorted({_kind(fault) for fault, _ in planted})
    print(f"\n{'fault':24}" + "".join(f"{phase:>12}" for phase in PHASES))
    for kind in kinds:
        cells = []
        for phase in PHASES:
            here = [not found for fault, found in planted if _kind(fault) == kind and fault.phase == phase]
            cells.append(f"{sum(here)}/{len(here)}" if here else "")
        print(f"{kind:24}" + "".join(f"{cell:>12}" for cell in cells))
    counts = Counter(one.partition(":")[0] for _, found in planted for one in found)
    print(
        f"\n{len(planted)} planted; " + (", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "all well")
    )


def _kind(fault: Fault) -> str:
    return f"{fault.target.partition(' ')[0]} {fault.action}"


def _row(fault: Fault, ending: Ending, found: list[str]) -> dict[str, object]:
    told = {"planted": ending.planted, "status": ending.status, "seconds": round(ending.seconds, 1)}
    return asdict(fault) | told | {"complaints": found}


def _status(rows: Sequence[tuple[Fault, Ending, list[str]]]) -> int:
    planted = [found for _, ending, found in rows if ending.planted]
    fatal = [one for found in planted for one in found if not one.startswith("CULPRIT")]
    missed = sum(any(one.startswith("CULPRIT") for one in found) for found in planted)
    return int(bool(fatal) or not planted or missed > (1 - _CULPRIT_SHARE) * len(planted))


if __name__ == "__main__":
    sys.exit(main())
