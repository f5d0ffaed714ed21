"""``python -m tests.measurements.start_up``: ``raybench --help`` against ``torchrun --help``, and where a start goes.

The second table splits ``raybench run --nodes 2`` (embedded cluster, small sweep) by the run's own clock.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.measurements.comparison import compare, ratio_of
from tests.measurements.process import QuietMachine, end_on_sigterm, raybench, run, torchrun
from tests.measurements.table import print_table, write_json

_LIMIT = 0.08
_RUN = ["run", "--nodes=2", "--address=local", "--suite=all_reduce", "--sizes=1K:1M:4", "--backend=gloo", "--quiet"]
_FORBIDDEN = ("torch", "ray", "ansible", "numpy", "rich")


def main() -> int:
    """Measure, print, write. Returns 1 where the limit is clearly missed, or a heavy library is imported."""
    end_on_sigterm()
    options = _options()
    machine = QuietMachine(options.lock)
    figures = _alternate(options.launches, machine)
    ratio = ratio_of(figures["raybench"], figures["torchrun"])
    compared = compare(figures, "torchrun")
    rows = [
        [
            side,
            f"{one['median'] * 1e3:.0f} ms",
            "1" if side == "torchrun" else str(ratio_of(figures[side], figures["torchrun"])),
        ]
        for side, one in compared.items()
    ]
    print_table(f"--help, {options.launches} launches a side in alternation", ["", "median", "ratio to torchrun"], rows)
    print(f"  limit {_LIMIT}: {ratio.verdict(_LIMIT)}")
    heavy = _imported()
    print(f"  imported by raybench --help, of {', '.join(_FORBIDDEN)}: {', '.join(heavy) or 'none'}")
    timings = _runs(options.runs, machine)
    _print_timings(timings)
    write_json(options.output, "start_up", {"help": compared, "imported": heavy, "run": timings})
    return int(ratio.verdict(_LIMIT) == "missed" or bool(heavy))


def _alternate(launches: int, machine: QuietMachine) -> dict[str, list[float]]:
    sides = {"torchrun": torchrun(), "raybench": raybench(), "control": torchrun()}
    figures: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(launches):
        with machine.held():
            for side in list(sides) if number % 2 == 0 else list(reversed(sides)):
                figures[side].append(_seconds([*sides[side], "--help"]))
    return figures


def _seconds(command: Sequence[str]) -> float:
    began = time.monotonic()
    run(command, seconds=60)
    return time.monotonic() - began


def _imported() -> list[str]:
    """Heavy libraries that the help imports."""
    code = (
        "import sys, contextlib, io\nfrom raybench.cli import group\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n    group.main(['--help'], standalone_mode=False)\n"
        f"print(*[name for name in {_FORBIDDEN!r} if name in sys.modules])"
    )
    return run([sys.executable, "-c", code]).split()


def _runs(runs: int, machine: QuietMachine) -> list[dict[str, float]]:
    found = []
    for _ in range(runs):
        with machine.held(), tempfile.TemporaryDirectory(prefix="rbb-") as folder:
            began = time.monotonic()
            run([*raybench(), *_RUN, f"--output-dir={folder}"])
            wall = time.monotonic() - began
            (result,) = Path(folder).glob("*/result.json")
            timings: dict[str, float] = json.loads(result.read_text())["timings_seconds"]
            found.append({**timings, "process": wall})
    return found


def _print_timings(timings: Sequence[dict[str, float]]) -> None:
    names = sorted(timings[0], key=lambda name: statistics.median(one[name] for one in timings))
    rows = [[name, f"{statistics.median(one[name] for one in timings):.2f}"] for name in names]
    print_table(f"raybench {' '.join(_RUN[:2])}, small sweep, median of {len(timings)}", ["phase or moment", "s"], rows)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m tests.measurements.start_up", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--launches", type=int, default=20, help="of each side")
    parser.add_argument("--runs", type=int, default=5, help="of raybench run --nodes 2")
    parser.add_argument("--quick", action="store_true", help="five launches, one run")
    parser.add_argument("--lock", type=Path, help="file whose lock is held while measuring")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    if options.quick:
        options.launches, options.runs = 5, 1
    return options


if __name__ == "__main__":
    sys.exit(main())
