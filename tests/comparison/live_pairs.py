"""``python -m tests.comparison.live_pairs`` (root): what ``raybench compare`` says of real runs, pair by pair.

Two nodes of the lab, their link held by tc at 100 Mbit/s, and in every third run at 95: 5 % slower. Each run is a
``raybench run`` of its own on the lab's Ray cluster. Runs of the same thing are paired with those nearest in time, each
slower one with every other; the order of measuring alternates, so that what else the machine does meets both sides.
20 rounds, 20 to 40 minutes on 2 idle cores (by how often runs launch again), make 168 pairs of the same and 20
neighbours. Limits: the verdict on the same thing twice is "no difference" for 95 of 100 pairs, and 5 % is found in 19
of 20. What other virtual machines took of each launch is printed (steal of /proc/stat). ``--judge FOLDER`` says what
compare says now of runs that were kept before.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from raybench.documents.comparison.comparison import Comparison
from raybench.documents.run.machine_use import stolen_shares
from raybench.documents.run.result import RunResult
from raybench.services.comparing.compare import compare_results
from raybench.stability import point_label
from tests.lab.cluster import Lab
from tests.lab.requirement import lab_available
from tests.measurements.process import LaunchError, end_on_sigterm, raybench
from tests.measurements.table import print_table, write_json

_RATES = ("100mbit", "100mbit", "95mbit")
_FULL, _SLOWER = _RATES[0], _RATES[-1]
_FOUND, _SAME = 0.95, 0.95
_NEAREST = 3  # each run with so many of the same rate that came after it
_COMMAND = (
    "run",
    "--suite=all_reduce",
    "--sizes=512K:1M:2",
    "--warmup=2",
    "--iters=4",
    "--repeats=3",
    "--backend=gloo",
)


def main() -> int:
    """Measure, pair, print, write. Returns 1 where a share is below its limit, 2 where there is no lab."""
    end_on_sigterm()
    options = _options()
    if options.judge is not None:
        return judge([_kept(folder) for folder in sorted(options.judge.iterdir())], options.output)
    reason = lab_available()
    if reason is not None:
        print(f"live_pairs: {reason}", file=sys.stderr)
        return 2
    began = time.monotonic()
    with Lab(nodes=2) as lab:
        lab.start_ray()
        runs = [_run(lab, number, _RATES[number % 3], options) for number in range(3 * options.rounds)]
    print(
        f"{len(runs)} runs in {time.monotonic() - began:.0f} s; load {os.getloadavg()[1]:.1f} on {os.cpu_count()} CPUs"
    )
    stolen = [share for run in runs for share in run["stolen"]]
    if stolen:
        print(f"other virtual machines had {mean(stolen):.1%} of the processors, {max(stolen):.1%} of a launch at most")
    return judge(runs, options.output)


def judge(runs: Sequence[dict[str, Any]], output: Path | None) -> int:
    """Compare all pairs of runs and say which share of them is right."""
    same = Counter(map(outcome, _same_pairs(runs)))
    every = Counter(map(outcome, _other_pairs(runs)))
    near = Counter(map(outcome, _neighbours(runs)))
    table = (("same twice", same, "no difference"), ("5 % slower, next to it", near, "slower"))
    table = (*table, ("5 % slower, all pairs", every, "slower"))
    rows = [
        [name, str(found.total()), word, f"{found[word] / max(found.total(), 1):.3f}", _said(found)]
        for name, found, word in table
    ]
    print_table("raybench compare A B", ["pairs", "count", "wanted", "share", "all words"], rows)
    write_json(output, "live_pairs", {"runs": list(runs), "words": {name: dict(found) for name, found, _ in table}})
    print(f"\nsame twice: {_share(same, 'no difference')} no difference; wanted: {_SAME:.0%}")
    print(
        f"5 % found: {_share(near, 'slower')} neighbouring pairs, {_share(every, 'slower')} of all pairs; "
        f"wanted: {_FOUND:.0%} of the neighbouring"
    )
    missed = same["no difference"] < _SAME * same.total() or near["slower"] < _FOUND * near.total()
    return int(missed)


def outcome(pair: tuple[Path, Path]) -> str:
    """What the verdict says of the second beside the first: of any figure that differs, else of all together."""
    return word_of(compare_results(pair))


def word_of(found: Comparison) -> str:
    """What a comparison says: of any figure that differs, else of all together."""
    for figure in found.figures:
        if figure.difference in ("slower", "faster"):
            return figure.difference
    if found.verdict == "ok" and found.verdict_reason.startswith("no difference"):
        return "no difference"
    return "cannot tell" if found.verdict == "unknown" else found.verdict


def _same_pairs(runs: Sequence[dict[str, Any]]) -> Iterator[tuple[Path, Path]]:
    for rate in (_FULL, _SLOWER):
        paths = [Path(run["path"]) for run in runs if run["rate"] == rate]
        for place, path in enumerate(paths):
            yield from ((path, later) for later in paths[place + 1 : place + 1 + _NEAREST])


def _neighbours(runs: Sequence[dict[str, Any]]) -> Iterator[tuple[Path, Path]]:
    for before, after in pairwise(runs):
        if (before["rate"], after["rate"]) == (_FULL, _SLOWER):
            yield Path(before["path"]), Path(after["path"])


def _other_pairs(runs: Sequence[dict[str, Any]]) -> Iterator[tuple[Path, Path]]:
    slower = [Path(run["path"]) for run in runs if run["rate"] == _SLOWER]
    yield from ((Path(run["path"]), one) for run in runs if run["rate"] == _FULL for one in slower)


def _share(found: "Counter[str]", word: str) -> str:
    return f"{found[word]} of {found.total()}"


def _said(found: "Counter[str]") -> str:
    return ", ".join(f"{word} {count}" for word, count in found.most_common())


def _run(lab: Lab, number: int, rate: str, options: argparse.Namespace) -> dict[str, Any]:
    """One run at a rate; its result is kept in ``options.folder``, and read from there by the comparison."""
    lab.shape(lab.nodes[1], rate)
    written = lab.folder.shared / f"run-{number:03d}"
    command = [*raybench(), *options.command, "--nodes=2", "--address", lab.ray_address, "--quiet", "--keep-warm=600"]
    began = time.monotonic()
    done = lab.nodes[0].run([*command, f"--output-dir={written}"], timeout=300)
    if done.returncode not in (0, 1, 3):
        raise LaunchError(
            f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    (result,) = written.glob("*/result.json")
    kept = options.folder / f"{number:03d}-{rate}"
    kept.mkdir(parents=True, exist_ok=True)
    path = kept / "result.json"
    path.write_bytes(result.read_bytes())
    benchmarks = RunResult.of_json(json.loads(path.read_text(encoding="utf-8")), str(path)).benchmarks
    seconds = {f"{one.name} {point_label(point)}": point.seconds.median for one in benchmarks for point in one.points}
    took, load = time.monotonic() - began, os.getloadavg()[0]
    launches = len(benchmarks[0].points[0].launches)
    stolen = [max(shares) for shares in stolen_shares(benchmarks[0].machine_use).values()]
    print(
        f"{number:3d} {rate:>8} {took:5.1f} s, load {load:4.1f}, {launches} launches that lost {_percent(stolen)}: "
        f"{', '.join(f'{name} {median * 1e3:.2f} ms' for name, median in seconds.items())}",
        flush=True,
    )
    known = {"path": str(path), "rate": rate, "load": load, "seconds": seconds, "stolen": stolen}
    return {**known, "launches": launches, "took_seconds": took}


def _kept(folder: Path) -> dict[str, Any]:
    return {"path": str(folder / "result.json"), "rate": folder.name.partition("-")[2]}


def _percent(shares: Sequence[float]) -> str:
    """What other virtual machines had of the processors; of the node that lost most."""
    return " ".join(f"{share:.1%}" for share in shares) or "what is not known"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.comparison.live_pairs", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=20, help="of two runs at 100 Mbit/s and one at 95")
    parser.add_argument("--folder", type=Path, default=Path("runs/live-pairs"), help="where the results are kept")
    parser.add_argument("--judge", type=Path, help="the folder of runs that were kept: nothing is measured")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    parser.add_argument("command", nargs="*", default=list(_COMMAND), help="the raybench command, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
