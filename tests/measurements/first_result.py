"""``python -m tests.measurements.first_result``: seconds to the first all_reduce, raybench against torchrun.

Both sides are measured from outside and alike: from the start of the command, interpreter included, until whoever
started it holds the news that every rank has completed an operation. A torchrun script of four lines prints it;
raybench writes it to the run's journal, after a way through Ray that the script does not have.

Scenes: ``attached`` (2 ranks, a Ray cluster runs already: cold, and warm after a run with --keep-warm), ``embedded``
(2 ranks, raybench starts its own cluster), ``ten`` (ten nodes of 8 ranks against ten torchruns), ``sweep`` (``raybench
run --nodes 10`` with a small sweep: seconds and memory).
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.measurements.comparison import Ratio, ratio_of
from tests.measurements.process import QuietMachine, end_on_sigterm, raybench, torchrun
from tests.measurements.ray_head import free_port, ray_head
from tests.measurements.sighting import Sight, watch_journal, watch_printed
from tests.measurements.table import print_table, write_json

_SCRIPT = str(Path(__file__).with_name("first_all_reduce.py"))
_FIRST = [
    "--suite=all_reduce",
    "--sizes=1K",
    "--warmup=0",
    "--iters=1",
    "--blocks=1",
    "--no-verify",
    "--backend=gloo",
    "--quiet",
]
_SWEEP = ["--suite=all_reduce", "--sizes=1K:1M:4", "--backend=gloo", "--quiet"]
_NODES, _RANKS = 10, 8
_GIB = 2**30

Launch = Callable[[bool], Sight]  # given whether to measure memory
Figures = dict[str, list[Sight]]


def main() -> int:
    """Measure the scenes asked for, print, write. Returns 1 where a limit is clearly missed."""
    end_on_sigterm()
    options = _options()
    machine = QuietMachine(options.lock)
    scenes: dict[str, Callable[[argparse.Namespace, QuietMachine], dict[str, Any]]] = {
        "attached": _attached,
        "embedded": _embedded,
        "ten": _ten,
        "sweep": _sweep,
    }
    content = {name: scenes[name](options, machine) for name in options.scenes.split(",")}
    write_json(options.output, "first_result", content)
    return int(any(one.get("missed") for one in content.values()))


def _attached(options: argparse.Namespace, machine: QuietMachine) -> dict[str, Any]:
    with ray_head() as head:
        place = ["--nodes=1", "--gpus-per-node=2", f"--address={head.address}"]

        def cold(memory: bool) -> Sight:
            return _raybench([*_FIRST, *place], head.variables, memory)

        def warm(memory: bool) -> Sight:
            _raybench(
                [*_FIRST, *place, "--keep-warm=60"], head.variables, memory
            )  # leaves its node actors to the next run
            return _raybench([*_FIRST, *place], head.variables, memory)

        sides: dict[str, Launch] = {"torchrun": _torchrun, "cold": cold, "control": _torchrun, "warm": warm}
        figures = _alternate(sides, options.launches, machine)
    title = f"2 ranks, attached to a running Ray cluster, {options.launches} launches a side (goal 0.25, limit 0.6)"
    return _report(title, figures, limits={"cold": 0.6, "warm": 0.6})


def _embedded(options: argparse.Namespace, machine: QuietMachine) -> dict[str, Any]:
    def own(memory: bool) -> Sight:
        return _raybench([*_FIRST, "--nodes=2", "--address=local"], {}, memory)

    sides: dict[str, Launch] = {"torchrun": _torchrun, "embedded": own, "control": _torchrun}
    figures = _alternate(sides, options.launches, machine)
    return _report(f"2 ranks, embedded cluster of 2 nodes, {options.launches} launches a side (no goal)", figures)


def _ten(options: argparse.Namespace, machine: QuietMachine) -> dict[str, Any]:
    sides: dict[str, Launch] = {"torchrun": _ten_torchruns, "embedded": _ten_embedded, "control": _ten_torchruns}
    figures = _alternate(sides, options.big_launches, machine)
    with machine.held():
        memory = {side: sides[side](True).peak_bytes for side in ("torchrun", "embedded")}
    title = f"{_NODES} nodes of {_RANKS} ranks, {options.big_launches} launches a side (goal 0.35 wall, limit 0.7)"
    report = _report(title, figures, limits={"embedded": 0.7})
    share = memory["embedded"] / memory["torchrun"]
    print(
        f"  peak memory (PSS): torchrun {memory['torchrun'] / _GIB:.2f} GiB, embedded {memory['embedded'] / _GIB:.2f} "
        f"GiB, ratio {share:.3f} (goal 0.2, limit 0.7; one launch each)"
    )
    return report | {"peak_bytes": memory, "memory_ratio": share}


def _sweep(options: argparse.Namespace, machine: QuietMachine) -> dict[str, Any]:
    def sweep(memory: bool) -> Sight:
        return _raybench([*_SWEEP, f"--nodes={_NODES}", "--address=local"], {}, memory)

    figures = _alternate({"sweep": sweep}, options.big_launches, machine)
    with machine.held():
        peak = sweep(True).peak_bytes
    totals = [sight.total_seconds for sight in figures["sweep"]]
    seconds = statistics.median(totals)
    print_table(
        f"raybench run --nodes {_NODES}, {' '.join(_SWEEP[:2])} (limits 30 s and 2 GiB)",
        ["", "median s", "max s", "first point s", "CPU s", "peak GiB"],
        [
            [
                "embedded",
                f"{seconds:.1f}",
                f"{max(totals):.1f}",
                f"{_median(figures['sweep'], 'first_seconds'):.1f}",
                f"{_median(figures['sweep'], 'cpu_seconds'):.1f}",
                f"{peak / _GIB:.2f}",
            ]
        ],
    )
    return {"figures": _plain(figures), "peak_bytes": peak, "missed": seconds > 30 or peak > 2 * _GIB}


def _alternate(sides: Mapping[str, Launch], launches: int, machine: QuietMachine) -> Figures:
    """Every side once a round, every other round in the opposite order."""
    figures: Figures = {side: [] for side in sides}
    for number in range(launches):
        with machine.held():
            for side in list(sides) if number % 2 == 0 else list(sides)[::-1]:
                figures[side].append(sides[side](False))
        latest = ", ".join(f"{side} {sights[-1].first_seconds:.2f} s" for side, sights in figures.items())
        print(f"round {number + 1} of {launches}: first result {latest}", file=sys.stderr, flush=True)
    return figures


def _torchrun(memory: bool) -> Sight:
    command = [*torchrun(), "--standalone", "--nproc-per-node=2", _SCRIPT]
    return watch_printed([command], 2, memory=memory, seconds=120)


def _ten_torchruns(memory: bool) -> Sight:
    master = ["--master-addr=127.0.0.1", f"--master-port={free_port()}", f"--nnodes={_NODES}"]
    node = [*torchrun(), *master, f"--nproc-per-node={_RANKS}"]
    commands = [[*node, f"--node-rank={rank}", _SCRIPT] for rank in range(_NODES)]
    return watch_printed(commands, _NODES * _RANKS, memory=memory, seconds=400)


def _ten_embedded(memory: bool) -> Sight:
    return _raybench([*_FIRST, f"--nodes={_NODES}", f"--gpus-per-node={_RANKS}", "--address=local"], {}, memory)


def _raybench(arguments: Sequence[str], variables: Mapping[str, str], memory: bool) -> Sight:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rbb-")))
        command = [*raybench(), "run", *arguments, f"--output-dir={folder}"]
        return watch_journal(command, folder, variables, memory=memory, seconds=300)


def _report(title: str, figures: Figures, limits: Mapping[str, float] | None = None) -> dict[str, Any]:
    rows, ratios = [], {}
    for side, sights in figures.items():
        cells = [side, *(f"{_median(sights, name):.2f}" for name in ("first_seconds", "total_seconds", "cpu_seconds"))]
        if side == "torchrun":
            rows.append([*cells, "1", "1", ""])
            continue
        first, cpu = (_ratio(figures, side, name) for name in ("first_seconds", "cpu_seconds"))
        judged = first.verdict(limits[side]) if limits and side in limits else ""
        ratios[side] = {"first": first.to_json(), "cpu": cpu.to_json(), "limit": judged}
        rows.append([*cells, str(first), str(cpu), judged])
    header = ["", "first s", "end s", "CPU s", "first, ratio to torchrun", "CPU, ratio", "limit"]
    print_table(title, header, rows)
    missed = any(one["limit"] == "missed" for one in ratios.values())
    return {"figures": _plain(figures), "ratios": ratios, "missed": missed}


def _median(sights: Sequence[Sight], name: str) -> float:
    return float(statistics.median(getattr(sight, name) for sight in sights))


def _ratio(figures: Figures, side: str, name: str) -> Ratio:
    measured, reference = ([getattr(sight, name) for sight in figures[one]] for one in (side, "torchrun"))
    return ratio_of(measured, reference)


def _plain(figures: Figures) -> dict[str, Any]:
    return {side: [asdict(sight) for sight in sights] for side, sights in figures.items()}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.measurements.first_result", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--scenes", default="attached,embedded,ten,sweep")
    parser.add_argument("--launches", type=int, default=10, help="of each side, two ranks")
    parser.add_argument("--big-launches", type=int, default=3, help="of each side, ten nodes (minutes each)")
    parser.add_argument("--quick", action="store_true", help="three launches, and one of ten nodes")
    parser.add_argument("--lock", type=Path, help="file whose lock is held during each round")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    if options.quick:
        options.launches, options.big_launches = 3, 1
    return options


if __name__ == "__main__":
    sys.exit(main())
