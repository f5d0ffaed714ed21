"""Faults of the agent itself: the run beside it has the same result, and says what was not watched."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import REPOSITORY, Command, started
from tests.faults.chaos.outcome import Ended, Outcome, ended_well

KIND = "agent"
_FEW, _MANY = 12, 150  # points; many take longer than what an agent may say nothing for
_RUN = ("run", "--address", "local", "--nodes", "2", "--suite", "quick", "--iters", "50", "--timeout", "110")
_SITE = str(Path(__file__).parents[1] / "site")
_LIMIT_SECONDS = 120.0
_MODULE = "diagnostics.agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFault:
    """``action``: a signal, or what ``site/sitecustomize.py`` has the agent do. ``missing``: samples are, or may be."""

    what: str
    action: str
    missing: bool | None = True
    points: int = _FEW
    workload: str = "run"
    kind: str = KIND


AGENT_FAULTS = (
    AgentFault(what="killed", action="SIGKILL"),
    AgentFault(what="ended by SIGTERM", action="SIGTERM"),
    AgentFault(what="stopped for good", action="SIGSTOP", points=_MANY),
    AgentFault(what="stopped for 3 s", action="pause", missing=False),
    AgentFault(what="aborts", action="SIGABRT"),
    AgentFault(what="says garbage beside", action="garbage", missing=None),
    AgentFault(what="one line without an end", action="endless", missing=True, points=_MANY),
    AgentFault(what="closes its output", action="closed"),
    AgentFault(what="says nothing at all", action="silent", points=_MANY),
    AgentFault(what="eats memory", action="memory", missing=None),
    AgentFault(what="its clock jumps", action="clock", missing=None),
    AgentFault(what="spins on a processor", action="spin", missing=None),
    AgentFault(what="leaves a child behind", action="child", missing=None),
    AgentFault(what="a module is missing", action="module"),
    AgentFault(what="no permission to start", action="refused"),
)


def play(fault: AgentFault, delay_seconds: float, pick: int) -> Outcome:
    """Run, with this fault of its agent."""
    by_signal = fault.action.startswith("SIG") or fault.action == "pause"
    environment = {"PYTHONPATH": os.pathsep.join([_SITE, str(REPOSITORY)])}
    with started(
        *_RUN, "--sizes", f"1K:{fault.points}K:+1K", environment=environment | _told(fault, by_signal=by_signal)
    ) as command:
        begun = time.monotonic()
        planted = True
        if by_signal:
            try:
                pid = command.wait_for(lambda: next(iter(command.matching(f"-m {_MODULE}")), None), 60)
                time.sleep(delay_seconds)
                begun = time.monotonic()
                _signal(pid, fault.action)
            except (TimeoutError, ProcessLookupError):
                planted = False
        ended = _ending(command, begun)
        planted = planted and (by_signal or (command.folder / "tmp" / "agent-fault").exists())
        return ended.outcome(complaints(fault, ended), planted=planted)


def _told(fault: AgentFault, *, by_signal: bool) -> dict[str, str]:
    return {} if by_signal else {"RAYBENCH_TEST_AGENT": fault.action}


def _signal(pid: int, action: str) -> None:
    if action == "pause":
        os.kill(pid, signal.SIGSTOP)
        time.sleep(3)
        os.kill(pid, signal.SIGCONT)
    else:
        os.kill(pid, signal.Signals[action])


def _ending(command: Command, begun: float) -> Ended:
    try:
        status: int | None = command.finish(_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        status = None
    seconds = time.monotonic() - begun
    left = [text[:120] for text in command.left_over().values()]
    left += [name for name in command.left_files() if name != "agent-fault"]
    document = command.result() if any(command.output.glob("*/result.json")) else None
    return Ended(status=status, seconds=seconds, text=command.out + command.errors, document=document, left=left)


def complaints(fault: AgentFault, ended: Ended) -> Iterator[str]:
    """What is wrong with how the command ended."""
    yield from ended_well(ended, statuses=(0,), limit_seconds=_LIMIT_SECONDS)
    result = ended.document
    if result is None:
        yield "RESULT: there is none"
        return
    points = [point for benchmark in result["benchmarks"] for point in benchmark["points"]]
    if result["status"] != "complete" or len(points) != fault.points or not all(one["verified"] for one in points):
        yield f"RESULT: {result['status']}, {len(points)} of {fault.points} points"
    said = _said_missing(result)
    if fault.missing is True and not said:
        yield f"CULPRIT: nothing says that samples are missing: {[one['rule'] for one in result['findings']]}"
    if fault.missing is False and said:
        yield f"CULPRIT: {said}"


def _said_missing(result: dict[str, Any] | Any) -> str:
    return "; ".join(one["summary"] for one in result["findings"] if one["rule"] == "agent-missing")
