"""``python -m tests.measurements.steady``: seconds per operation, raybench against torchrun with the same loop.

Sides: ``torchrun`` (the reference: raybench's own loop under torchrun), ``control`` (the same again: what the machine
alone makes of a ratio), ``plain`` (a hand-written torch script under torchrun), ``attached`` (raybench on a running Ray
cluster) and ``embedded`` (raybench with a cluster of its own). Two gloo ranks each. A figure is the median over blocks
of the mean time of an operation in a block.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from raybench.sizes import parse_sizes
from raybench.units import format_bytes, format_seconds
from tests.measurements.comparison import Ratio, compare, ratio_of
from tests.measurements.process import QuietMachine, end_on_sigterm, hogs, raybench, run, torchrun
from tests.measurements.ray_head import RayHead, ray_head
from tests.measurements.table import print_table, write_json

SIDES = ("torchrun", "attached", "control", "embedded", "plain")
LARGE = 16 * 2**20
_TORCHRUN = ("--standalone", "--nproc-per-node=2")
_PLAIN = Path(__file__).with_name("plain_loop.py")

Launch = Callable[[], dict[int, float]]  # median seconds by message size


def main() -> int:
    """Measure, print, write. Returns 1 where a goal is clearly missed."""
    end_on_sigterm()
    options = _options()
    machine = QuietMachine(options.lock)
    figures: dict[str, dict[int, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        head = stack.enter_context(ray_head()) if "attached" in options.sides else None
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rbb-")))
        launches = {side: _launch_of(side, options, head, folder) for side in options.sides}
        for number in range(options.launches):
            with machine.held(), hogs(options.hogs):
                _round(number, launches, figures)
            print(f"round {number + 1} of {options.launches} done", file=sys.stderr, flush=True)
    return _report(figures, options)


def _round(number: int, launches: Mapping[str, Launch], figures: dict[str, dict[int, list[float]]]) -> None:
    """Each side once; every other round in the opposite order."""
    order = list(launches) if number % 2 == 0 else list(launches)[::-1]
    for side in order:
        for size, seconds in launches[side]().items():
            figures.setdefault(side, {}).setdefault(size, []).append(seconds)


def _launch_of(side: str, options: argparse.Namespace, head: RayHead | None, folder: Path) -> Launch:
    plan = ["--suite", options.operation, "--sizes", options.sizes, "--blocks", str(options.blocks), "--placement=out"]
    if side in ("torchrun", "control"):
        return lambda: _standalone(plan, folder / "standalone.json")
    if side == "plain":
        return lambda: _plain(options, folder / "plain.json")
    if side == "attached":
        assert head is not None
        place = ["--nodes=1", "--gpus-per-node=2", f"--address={head.address}"]
        return lambda: _raybench([*plan, *place], folder, head.variables)
    return lambda: _raybench([*plan, "--nodes=2", "--address=local"], folder, {})


def _standalone(plan: Sequence[str], output: Path) -> dict[int, float]:
    module = ["-m", "raybench.benchmarks.standalone", *plan, "--no-verify", f"--output={output}"]
    run([*torchrun(), *_TORCHRUN, *module])
    (result,) = json.loads(output.read_text())["benchmarks"]
    return {
        point["message_bytes"]: statistics.median(statistics.fmean(block) for launch in launches for block in launch)
        for point, launches in zip(result["points"], result["launches"], strict=True)
    }


def _plain(options: argparse.Namespace, output: Path) -> dict[int, float]:
    sizes = [str(size) for size in parse_sizes(options.sizes)]
    run([*torchrun(), *_TORCHRUN, str(_PLAIN), options.operation, str(options.blocks), str(output), *sizes])
    return {int(size): statistics.median(blocks) for size, blocks in json.loads(output.read_text()).items()}


def _raybench(arguments: Sequence[str], folder: Path, variables: Mapping[str, str]) -> dict[int, float]:
    with tempfile.TemporaryDirectory(dir=folder) as output:
        command = [*raybench(), "run", *arguments, "--backend=gloo", "--no-verify", "--quiet", f"--output-dir={output}"]
        run(command, extra=variables)
        (journal,) = Path(output).glob("*/samples.jsonl")
        entries = [json.loads(line) for line in journal.read_text().splitlines()]
    return {entry["message_bytes"]: _block_median(entry["rank_completion_seconds"]) for entry in entries}


def _block_median(stamps: Mapping[str, Sequence[Sequence[float]]]) -> float:
    """From each rank's completion times in each block: the slowest rank's mean time of an operation."""
    by_block = zip(*stamps.values(), strict=True)
    means = [max(rank[-1] for rank in block) / len(block[0]) for block in by_block]
    return float(statistics.median(means))


def _report(figures: Mapping[str, Mapping[int, Sequence[float]]], options: argparse.Namespace) -> int:
    rows, content, missed = [], {}, False
    for size in parse_sizes(options.sizes):
        at_size = {side: values[size] for side, values in figures.items()}
        content[str(size)] = compare(at_size, "torchrun")
        cells = [format_bytes(size), format_seconds(content[str(size)]["torchrun"]["median"])]
        for side in options.sides[1:]:
            ratio = ratio_of(at_size[side], at_size["torchrun"])
            goal = _bounds(size, options.hogs) if side in ("attached", "embedded") else None
            judged = _judge(ratio, goal)
            missed |= judged == "missed"
            cells.append(f"{ratio} {judged}".rstrip())
        rows.append(cells)
    title = (
        f"{options.operation}, 2 gloo ranks, seconds per operation as a ratio to torchrun, {options.launches} launches "
        f"a side in alternation, {options.hogs} busy processes beside it"
    )
    print_table(title, ["size", "torchrun", *options.sides[1:]], rows)
    print("goal: within 1.00 +- 0.03 from 16M up, at most 1.10 below; at most 2 with busy neighbours")
    write_json(options.output, "steady", {"operation": options.operation, "hogs": options.hogs, "sizes": content})
    return int(missed)


def _bounds(size: int, busy: int) -> tuple[float, float]:
    if busy:
        return 0.0, 2.0
    return (0.97, 1.03) if size >= LARGE else (0.0, 1.10)


def _judge(ratio: Ratio, goal: tuple[float, float] | None) -> str:
    if goal is None:
        return ""
    low, high = goal
    if low <= ratio.low and ratio.high <= high:
        return "met"
    return "missed" if ratio.low > high or ratio.high < low else "inconclusive"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.measurements.steady", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--operation", default="all_reduce", choices=("all_reduce", "all_gather", "send_recv"))
    parser.add_argument("--sizes", default="4K,1M,16M,64M")
    parser.add_argument("--launches", type=int, default=10, help="of each side")
    parser.add_argument("--blocks", type=int, default=5, help="blocks of timed operations a size and launch")
    parser.add_argument("--hogs", type=int, default=0, metavar="N", help="busy processes beside the measurement")
    parser.add_argument("--sides", default=",".join(SIDES), help="which to measure; torchrun is always first")
    parser.add_argument("--quick", action="store_true", help="three launches a side")
    parser.add_argument("--lock", type=Path, help="file whose lock is held during each round")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options: Any = parser.parse_args()
    options.sides = ["torchrun", *(side for side in options.sides.split(",") if side != "torchrun")]
    if options.quick:
        options.launches = 3
    return options


if __name__ == "__main__":
    sys.exit(main())
