"""``python -m tests.measurements.agent_steps``: step time of a training beside its agent, and while that is stopped.

Trainings of one rank with one thread, which leaves the agent a processor as GPU nodes do. The agent is stopped by
SIGSTOP (all of its threads) and goes on by turns of a second or two: a round is a turn with the agent and two
without, in random order; one of the latter is the control (A/A). All turns see the same processes and memory. A turn
counts the mean of its steps: a reading a second is a few steps of many, which a median would not see. Each round
gives its own ratio, of which the median counts. That no processor time passes in a stopped agent is looked at in
every turn.

What is asked for, half a percent, is less than what turns of a busy machine differ by. So the same is done with an
agent that reads ten times as often: what it costs, over the processor time that it takes more, is what the agent
costs. A machine with other work (a load above 1.5 at the start) is not measured on: exit status 3, and ``--anyway``.
"""

import argparse
import math
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
from tests.measurements.process import REPOSITORY, LaunchError, end_on_sigterm, end_tree, raybench, start
from tests.measurements.table import print_table, write_json

LIMIT = 1.005
LIMIT_MIB = 64
QUIET_LOAD = 1.5
_SIDES = ("without", "with", "control")  # the last without, too
_SETTLING_SECONDS = 0.3  # of each turn: an agent that goes on has readings to make up for
_STARTING_SECONDS = 90.0
_SPARE = 1.5  # steps more than the turns take, as a first short training may be slower than the rest
_STOPPED_SECONDS = 0.011  # of processor time: the kernel counts a hundredth, which may be of before the stop
_SITE = str(Path(__file__).parents[1] / "faults" / "site")
_INTERVALS = {"once a second": "", "ten times a second": "tenfold"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Seconds of the machine's monotonic clock, and processor seconds of the agent and of the rest but the rank."""

    side: str
    begin: float
    end: float
    agent_seconds: float
    rest_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one training: each round's ratios to the turns without, and processor seconds a second.

    ``rest``: of what hears the agent (node actor, driver, command), more than while it is stopped.
    """

    beside: Ratio
    control: Ratio
    agent: float
    rest: float
    step_seconds: float
    pss_mib: float

    def per(self, times: float) -> Ratio:
        """What an agent costs that takes so many times less."""
        value, low, high = (1 + (one - 1) / times for one in (self.beside.value, self.beside.low, self.beside.high))
        return Ratio(value=value, low=low, high=high, rounds=self.beside.rounds)


def main() -> int:
    """Measure, print, write. 1 where a limit is missed, 3 where the machine or the control leaves it open."""
    options = _options()
    load = os.getloadavg()[0]
    if load > QUIET_LOAD and not options.anyway:
        print(f"not measured: the load is {load:.1f}, and what else runs would be in every step; wait, or --anyway")
        return 3
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="raybench-steps-") as folder:
        each = _step_seconds(Path(folder) / "first")
        costs = {
            name: _cost(Path(folder) / f"every{action}", action, each, options) for name, action in _INTERVALS.items()
        }
    seldom, often = costs.values()
    times = often.agent / seldom.agent if seldom.agent else 1.0
    verdict = judged(seldom.beside, seldom.control, often.per(times), often.control, times)
    _print(costs, times, options)
    print(f"  limits: {LIMIT} and {LIMIT_MIB} MiB; {verdict}; load at the start {load:.1f}")
    write_json(options.output, "agent_steps", {name: _figures(one) for name, one in costs.items()} | {"load": load})
    if verdict == "missed" or seldom.pss_mib > LIMIT_MIB:
        return 1
    return 0 if verdict == "met" else 3


def judged(beside: Ratio, control: Ratio, scaled: Ratio, scaled_control: Ratio, times: float) -> str:
    """By the agent as it is, else by the one that reads more often; a control that is off says nothing of the agent.

    Of two that are alike, the interval holds 1. One control of twenty is off by chance: by less than half of the limit
    it hides and makes up nothing that counts.
    """
    verdicts = [
        measured.verdict(LIMIT)
        for measured, beside_it, share in ((beside, control, 1.0), (scaled, scaled_control, times))
        if _holds_one(beside_it, 1 + (LIMIT - 1) * share / 2)
    ]
    if not verdicts:
        return "inconclusive: the control is off"
    decided = [one for one in verdicts if one != "inconclusive"]
    return decided[0] if len(set(decided)) == 1 else "inconclusive"


def _holds_one(control: Ratio, most: float) -> bool:
    return control.low <= 1 <= control.high or (math.isfinite(control.high) and 1 / most <= control.value <= most)


def _print(costs: dict[str, Cost], times: float, options: argparse.Namespace) -> None:
    rows = [
        [
            name, f"{1e3 * one.step_seconds:.3f} ms", _shown(one.beside), _shown(one.control),
            f"{one.agent:.4f}", f"{one.rest:+.4f}", f"{one.pss_mib:.1f} MiB",
        ]
        for name, one in costs.items()
    ]  # fmt: skip
    head = ["the agent reads", "step", "with it, of without", "control", "CPU s/s", "and who hears it", "PSS"]
    print_table(f"{options.rounds} rounds of turns of {options.turn_seconds:g} s", head, rows)
    often = costs[list(costs)[1]]
    print(
        f"  that of ten times a second over its processor time, {times:.1f} times as much: {_shown(often.per(times))}"
    )


def _figures(one: Cost) -> dict[str, Any]:
    return {
        "with": one.beside.to_json(),
        "control": one.control.to_json(),
        "agent_cpu_seconds_per_second": one.agent,
        "others_cpu_seconds_per_second": one.rest,
        "step_seconds": one.step_seconds,
        "pss_mib": one.pss_mib,
    }


def _shown(ratio: Ratio) -> str:
    return f"{ratio.value:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]"


def _cost(folder: Path, action: str, each: float, options: argparse.Namespace) -> Cost:
    turns, pss_mib = _measured(folder, action, each, options.rounds, options.turn_seconds)
    steps, offset = _steps(folder)
    means = {side: [_mean(steps, offset, turn) for turn in turns if turn.side == side] for side in _SIDES}
    alone = [math.sqrt(one * other) for one, other in zip(means["without"], means["control"], strict=True)]
    used = {side: [turn for turn in turns if (turn.side == "with") == (side == "with")] for side in ("with", "without")}
    rest = {side: sum(turn.rest_seconds for turn in own) / _seconds(own) for side, own in used.items()}
    return Cost(
        beside=paired_ratio_of(means["with"], alone),
        control=paired_ratio_of(means["control"], means["without"]),
        agent=sum(turn.agent_seconds for turn in used["with"]) / _seconds(used["with"]),
        rest=rest["with"] - rest["without"],
        step_seconds=statistics.median(alone),
        pss_mib=pss_mib,
    )


def _seconds(turns: Sequence[Turn]) -> float:
    return sum(turn.end - turn.begin for turn in turns)


def _measured(folder: Path, action: str, each: float, rounds: int, turn_seconds: float) -> tuple[list[Turn], float]:
    """Take turns until all rounds are done, then let the training end by itself: it has steps for longer.

    Also the agent's memory at the end, MiB.
    """
    seconds = rounds * len(_SIDES) * turn_seconds
    run = start(_command(folder, steps=int(_SPARE * (seconds + 5) / each)), extra=_told(action))
    try:
        agent = _agent_of(run)
        rest = [one for one in psutil.Process(run.pid).children(recursive=True) if _hears(one)]
        rest.append(psutil.Process(run.pid))
        turns = [turn for _ in range(rounds) for turn in _round(agent, rest, turn_seconds)]
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


def _told(action: str) -> dict[str, str]:
    paths = os.pathsep.join([_SITE, str(REPOSITORY)])
    return {"RAYBENCH_TEST_AGENT": action, "PYTHONPATH": paths} if action else {}


def _hears(process: psutil.Process) -> bool:
    return " ".join(process.cmdline()).startswith(("raybench driver", "ray::RayNodeActor"))


def _round(agent: psutil.Process, rest: Sequence[psutil.Process], turn_seconds: float) -> list[Turn]:
    turns = []
    for side in random.sample(_SIDES, len(_SIDES)):
        agent.send_signal(signal.SIGCONT if side == "with" else signal.SIGSTOP)
        time.sleep(_SETTLING_SECONDS)
        before, begin = [_used([agent]), _used(rest)], time.monotonic()
        time.sleep(turn_seconds - _SETTLING_SECONDS)
        end = time.monotonic()
        used = [after - one for after, one in zip([_used([agent]), _used(rest)], before, strict=True)]
        if side != "with" and used[0] > _STOPPED_SECONDS:
            raise LaunchError(f"the agent was stopped, and took {used[0]:.2f} s of a processor")
        turns.append(Turn(side=side, begin=begin, end=end, agent_seconds=used[0], rest_seconds=used[1]))
    return turns


def _used(processes: Sequence[psutil.Process]) -> float:
    return sum(one.cpu_times().user + one.cpu_times().system for one in processes)


def _command(folder: Path, steps: int) -> list[str]:
    training = f"train --model mlp --hidden-dims 512,512,256 --overlap-steps 0 --steps {steps}"
    where = "--nodes 1 --gpus-per-node 1 --backend gloo --address local --timeout 3600 --quiet"
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
    (path,) = folder.glob(f"*/{FILE}")
    timeline = Timeline(_result(folder), NodeSamples.read(path, "samples"))
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
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--turn-seconds", type=float, default=1.3)
    parser.add_argument("--anyway", action="store_true", help="on a busy machine, too")
    parser.add_argument("--output", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
