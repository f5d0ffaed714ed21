"""``python -m tests.measurements.agent_steps``: step time of a training beside its agent, and while that is stopped.

One training of two ranks. Its agent is stopped and goes on by turns, some seconds each: a round is a turn with the
agent and two without, in random order; of the latter one is the control (A/A). All turns see the same processes and
memory, so that what differs between launches is not in the ratio. A turn counts the mean of its steps: a reading a
second is a few steps of many, which a median would not see. Each round gives its own ratio, of which the median counts.
A machine with other work (a load above 1.5 at the start) is not measured on: exit status 3, and ``--anyway``.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from raybench.documents.run.node_samples import FILE, NodeSamples
from raybench.documents.run.result import RunResult
from raybench.timeline.spans import Steps, Timeline
from tests.measurements.comparison import Ratio, paired_ratio_of
from tests.measurements.process import LaunchError, end_on_sigterm, end_tree, raybench, start
from tests.measurements.table import print_table, write_json

LIMIT = 1.005
LIMIT_MIB = 64
QUIET_LOAD = 1.5
_SIDES = ("without", "with", "control")  # the last without, too
_SETTLING_SECONDS = 1.0  # of each turn
_STARTING_SECONDS = 60.0
_SPARE = 1.5  # steps more than the turns take, as a first short training may be slower than the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Seconds of the machine's monotonic clock."""

    side: str
    begin: float
    end: float


def main() -> int:
    """Measure, print, write. 1 where a limit is missed, 3 where the machine or the control leaves it open."""
    options = _options()
    load = os.getloadavg()[0]
    if load > QUIET_LOAD and not options.anyway:
        print(f"not measured: the load is {load:.1f}, and what else runs would be in every step; wait, or --anyway")
        return 3
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="raybench-steps-") as folder:
        turns, pss_mib = _measured(Path(folder), options.rounds, options.turn_seconds)
        steps, offset = _steps(Path(folder))
    means = {side: [_mean(steps, offset, turn) for turn in turns if turn.side == side] for side in _SIDES}
    ratios = {side: paired_ratio_of(means[side], means["without"]) for side in ("with", "control")}
    print_table(
        f"mean step of {len(steps.ends)} steps, {options.rounds} rounds of turns of {options.turn_seconds:g} s",
        ["the agent", "step", "to without, of the same round"],
        [
            [side, f"{1e3 * statistics.median(means[side]):.3f} ms", _shown(ratios.get(side))]
            for side in ("without", "with", "control")
        ],
    )
    verdict = judged(ratios["with"], ratios["control"])
    print(f"  limit: {LIMIT}; control: turns without it as well; {verdict}; load at the start {load:.1f}")
    print(f"  the agent's memory (PSS): {pss_mib:.1f} MiB, limit {LIMIT_MIB}")
    figures = {side: ratio.to_json() for side, ratio in ratios.items()}
    write_json(options.output, "agent_steps", {**figures, "means": means, "pss_mib": pss_mib, "load": load})
    if verdict == "missed" or pss_mib > LIMIT_MIB:
        return 1
    return 0 if verdict == "met" else 3


def judged(measured: Ratio, control: Ratio) -> str:
    """Of two that are alike, the interval holds 1; where it does not, the rounds say nothing of the agent."""
    return measured.verdict(LIMIT) if control.low <= 1 <= control.high else "inconclusive: the control is off"


def _shown(ratio: Ratio | None) -> str:
    return f"{ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]" if ratio else ""


def _measured(folder: Path, rounds: int, turn_seconds: float) -> tuple[list[Turn], float]:
    """Take turns until all rounds are done, then let the training end by itself: it has steps for longer.

    Also the agent's memory at the end, MiB.
    """
    seconds = rounds * len(_SIDES) * turn_seconds
    each = _step_seconds(folder / "first")
    run = start(_command(folder / "run", steps=int(_SPARE * (seconds + 10) / each)))
    try:
        agent = _agent_of(run)
        turns = [turn for _ in range(rounds) for turn in _round(agent, turn_seconds)]
        agent.send_signal(signal.SIGCONT)
        memory: Any = agent.memory_full_info()
        out, _ = run.communicate(timeout=_SPARE * seconds + _STARTING_SECONDS)
    except psutil.NoSuchProcess:
        raise LaunchError("the training ended before the last turn; its first short one was slower") from None
    finally:
        end_tree(run)
    if run.returncode not in (0, 1):
        raise LaunchError(f"the training ended with status {run.returncode}: {out[-2000:]}")
    return turns, memory.pss / 2**20


def _round(agent: psutil.Process, turn_seconds: float) -> list[Turn]:
    turns = []
    for side in random.sample(_SIDES, len(_SIDES)):
        agent.send_signal(signal.SIGCONT if side == "with" else signal.SIGSTOP)
        time.sleep(_SETTLING_SECONDS)
        begin = time.monotonic()
        time.sleep(turn_seconds - _SETTLING_SECONDS)
        turns.append(Turn(side=side, begin=begin, end=time.monotonic()))
    return turns


def _command(folder: Path, steps: int) -> list[str]:
    training = f"train --model mlp --hidden-dims 512,512,256 --overlap-steps 0 --steps {steps}"
    where = "--nodes 1 --gpus-per-node 2 --backend gloo --address local --timeout 3600 --quiet"
    return [*raybench(), *training.split(), *where.split(), "--output-dir", str(folder)]


def _step_seconds(folder: Path) -> float:
    """Of a short training, which may be over before its agent says anything."""
    run = start(_command(folder, steps=200))
    out, _ = run.communicate(timeout=2 * _STARTING_SECONDS)
    if run.returncode not in (0, 1):
        raise LaunchError(f"the training ended with status {run.returncode}: {out[-2000:]}")
    timeline = Timeline(_result(folder), NodeSamples(run_id="", started_at=""))
    return statistics.median(timeline.steps[0].point.launches[0])


def _agent_of(run: "subprocess.Popen[str]") -> psutil.Process:
    """The agent of the training, once it is there and steps are made."""
    deadline = time.monotonic() + _STARTING_SECONDS
    while time.monotonic() < deadline and run.poll() is None:
        for one in psutil.Process(run.pid).children(recursive=True):
            if "diagnostics.agent" in one.cmdline():
                time.sleep(5)
                return one
        time.sleep(0.2)
    end_tree(run)
    raise LaunchError("the training has no agent")


def _result(folder: Path) -> RunResult:
    (path,) = folder.glob("*/result.json")
    return RunResult.read(path, "result")


def _steps(folder: Path) -> tuple[Steps, float]:
    """The steps, and what to add to a time of this machine's monotonic clock for the clock of the steps."""
    (path,) = (folder / "run").glob(f"*/{FILE}")
    timeline = Timeline(_result(folder / "run"), NodeSamples.read(path, "samples"))
    return timeline.steps[0], timeline.samples.nodes[0].clock.offset_seconds


def _mean(steps: Steps, offset: float, turn: Turn) -> float:
    """Of the steps that began and ended within a turn."""
    ends: Sequence[float] = steps.ends
    first, last = bisect_left(ends, turn.begin + offset), bisect_right(ends, turn.end + offset) - 1
    if last <= first:
        raise LaunchError(f"no steps within a turn of {turn.end - turn.begin:.1f} s")
    return (ends[last] - ends[first]) / (last - first)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turn-seconds", type=float, default=4.0)
    parser.add_argument("--anyway", action="store_true", help="on a busy machine, too")
    parser.add_argument("--output", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
