"""Seeded faults into real commands, one after another: ``python -m tests.faults --seed 1 --side-by-side 2``.

Each case starts a command, waits for its moment, and plants one fault: a process of it is killed, stopped or disturbed;
its agent misbehaves; a host of its inventory, sshd or Ansible fails; a link goes, loses packets or is cut; a node is
slow, loses power or reboots. Exit code 0: every command ended in time, with the right exit code, nothing left, and the
culprit named in at least 95 % of the cases that have one. A case that cannot be run here is counted as skipped.
"""

import argparse
import json
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.campaign import TABLES, Case, cases, play
from tests.faults.chaos.outcome import Outcome
from tests.faults.commands import WORKLOADS
from tests.faults.plan import PHASES, Fault

_CULPRIT_SHARE = 0.95
Row = tuple[Case, Outcome, float]  # seconds from the first process of the row to its last


def main() -> int:
    """Run the campaign. Returns the exit status."""
    options = _options()
    # Under nohup, and in the background of a script, these are ignored, by every command that is started as well.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    drawn = cases(options.seed, options.count, tables=options.tables.split(","), workloads=options.workloads.split(","))
    if options.only:
        wanted = {number for one in options.only.split(",") for number in _numbers(one)}
        drawn = [one for one in drawn if one.number in wanted]
    if options.list:
        print("\n".join(f"{one.number:4} {one.table:10} {one.workload:10} {one.what}" for one in drawn))
        return 0
    begun = time.monotonic()
    with ThreadPoolExecutor(options.side_by_side) as pool:
        rows = list(pool.map(lambda one: _played(one, len(drawn), verbose=options.verbose), drawn))
    _print_rows(rows)
    _print_phases(rows)
    _print_kinds(rows)
    print(f"{len(rows)} faults, seed {options.seed}, {time.monotonic() - begun:.0f} s")
    if options.json:
        Path(options.json).write_text("".join(json.dumps(_line(*row)) + "\n" for row in rows), encoding="utf-8")
    return _status(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=122)
    parser.add_argument("--tables", default=",".join(TABLES), help="of %(default)s")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="of faults of processes: %(default)s")
    parser.add_argument("--only", help="numbers of cases, such as 3,17 or 1-40")
    parser.add_argument("--list", action="store_true", help="say what would be planted, and stop")
    parser.add_argument("--side-by-side", type=int, default=1, help="cases at a time [default: %(default)s]")
    parser.add_argument("--json", help="a file for one line of JSON a case")
    parser.add_argument("--verbose", action="store_true", help="what a failed case printed")
    return parser.parse_args()


def _numbers(text: str) -> range:
    """Of ``7``, or of ``1-40``."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _played(case: Case, count: int, *, verbose: bool) -> Row:
    begun = time.monotonic()
    try:
        outcome = play(case)
    except Exception as error:  # noqa: BLE001 - of the campaign itself: this row is wrong, and the others go on
        what = " ".join(f"BROKEN: {type(error).__name__}: {error}".split())[:300]
        outcome = Outcome(planted=True, text=traceback.format_exc(), complaints=(what,))
    wall = time.monotonic() - begun
    said = "; ".join(outcome.complaints) or ("ok" if outcome.planted else _not_planted(outcome))
    what = f"{case.workload:10} +{case.delay_seconds:.2f} s  {case.what:36}"
    when = f"after {outcome.seconds:5.1f} s, {wall:5.1f} s in all"
    print(f"[{case.number}/{count}] {what} exit {outcome.status} {when}  {said}", flush=True)
    if outcome.complaints and verbose:
        print(outcome.text[-4000:], flush=True)
    return case, outcome, wall


def _not_planted(outcome: Outcome) -> str:
    if outcome.skipped:
        return f"not planted: {outcome.skipped}"
    return "not planted: it had ended, or there is no such process"


def _print_rows(rows: Sequence[Row]) -> None:
    """Each with what became of it, and how long it took."""
    print(f"\n{'':>4} {'table':10} {'command':10} {'fault':48} {'exit':>5} {'wall':>7}  result")
    for case, out, wall in rows:
        result = "wrong" if out.complaints else "right" if out.planted else "skipped"
        told = f"{case.number:4} {case.table:10} {case.workload:10} {case.what[:48]:48}"
        print(f"{told} {out.status!s:>5} {wall:5.1f} s  {result}")


def _print_phases(rows: Sequence[Row]) -> None:
    """Faults of processes, by what and when: well ended of planted."""
    planted = [(case, case.fault.phase, out) for case, out, _ in rows if out.planted and isinstance(case.fault, Fault)]
    if not planted:
        return
    print(f"\n{'fault of a process':24}" + "".join(f"{phase:>12}" for phase in PHASES))
    for kind in sorted({case.kind for case, _, _ in planted}):
        cells = []
        for phase in PHASES:
            here = [not out.complaints for case, when, out in planted if case.kind == kind and when == phase]
            cells.append(f"{sum(here)}/{len(here)}" if here else "")
        print(f"{kind:24}" + "".join(f"{cell:>12}" for cell in cells))


def _print_kinds(rows: Sequence[Row]) -> None:
    """All of them, by kind; and what was wrong, counted."""
    print(f"\n{'fault':24}" + "".join(f"{word:>12}" for word in ("planted", "right", "wrong", "skipped")))
    for kind in (*sorted({_group(case) for case, _, _ in rows}), None):
        here = [out for case, out, _ in rows if kind in (None, _group(case))]
        planted = [out for out in here if out.planted]
        wrong = sum(bool(out.complaints) for out in planted)
        figures = (len(planted), len(planted) - wrong, wrong, len(here) - len(planted))
        print(f"{kind or 'all':24}" + "".join(f"{figure:>12}" for figure in figures))
    counts = Counter(one.partition(":")[0] for _, out, _ in rows for one in out.complaints)
    told = ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) or "all well"
    print(f"\n{sum(out.planted for _, out, _ in rows)} planted; {told}")


def _group(case: Case) -> str:
    return f"process: {case.kind.partition(' ')[0]}" if isinstance(case.fault, Fault) else case.kind


def _line(case: Case, outcome: Outcome, wall: float) -> dict[str, object]:
    fault = case.fault
    of_process = (
        {"phase": fault.phase, "target": fault.target, "action": fault.action} if isinstance(fault, Fault) else {}
    )
    told = {"number": case.number, "table": case.table, "kind": case.kind, "what": case.what, "workload": case.workload}
    ended = {"planted": outcome.planted, "skipped": outcome.skipped, "status": outcome.status}
    seconds = {
        "delay_seconds": case.delay_seconds,
        "pick": case.pick,
        "seconds": round(outcome.seconds, 1),
        "wall_seconds": round(wall, 1),
    }
    return told | of_process | seconds | ended | {"complaints": list(outcome.complaints)}


def _status(rows: Sequence[Row]) -> int:
    planted = [out.complaints for _, out, _ in rows if out.planted]
    fatal = [one for found in planted for one in found if not one.startswith("CULPRIT")]
    missed = sum(any(one.startswith("CULPRIT") for one in found) for found in planted)
    return int(bool(fatal) or not planted or missed > (1 - _CULPRIT_SHARE) * len(planted))


if __name__ == "__main__":
    sys.exit(main())
