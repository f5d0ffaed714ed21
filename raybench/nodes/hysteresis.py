"""When a watch acts: a node is drained after several bad looks in a row, and resumed after several good ones. Pure.

A look that leaves a node unknown is neither: it ends no row of bad looks, so that a node that is bad and hard to reach
is drained all the same, and it ends a row of good ones, so that nothing is resumed on half of what was seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from raybench.documents.preflight import PreflightReport
from raybench.errors import UsageError
from raybench.nodes.intent import Intent, Policy, intent_of
from raybench.verdicts import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """Looks in a row: ``bad`` drain, ``good`` healthy, ``fair`` healthy or degraded."""

    bad: int = 0
    good: int = 0
    fair: int = 0

    def after(self, state: NodeState) -> "Streak":
        """With one more look."""
        match state:
            case "drain":
                return Streak(bad=self.bad + 1)
            case "healthy":
                return Streak(good=self.good + 1, fair=self.fair + 1)
            case "degraded":
                return Streak(fair=self.fair + 1)
        return Streak(bad=self.bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hysteresis:
    """How many looks in a row it takes to drain and to resume. Raises UsageError for less than one."""

    bad: int = 3
    good: int = 3

    def __post_init__(self) -> None:
        if self.bad < 1 or self.good < 1:
            raise UsageError("a node is drained or resumed after at least one look: --bad and --good are 1 or more")


def damped(
    report: PreflightReport, streaks: Mapping[str, Streak], hysteresis: Hysteresis, policy: Policy
) -> tuple[Intent, ...]:
    """What is wanted of each host, with the looks of before counted. ``streaks`` have the report's look in them."""
    found = []
    for host in report.hosts:
        if host.node is None:
            raise UsageError("this preflight report has no node states")
        step, streak = policy.step(host.node.state), streaks.get(host.host, Streak())
        good = streak.fair if policy.degraded == "resume" else streak.good
        seen, needed = (streak.bad, hysteresis.bad) if step == "drain" else (good, hysteresis.good)
        if step == "none" or seen >= needed:
            found.append(intent_of(host, step))
        else:
            waits = f"{host.node.state} {seen} of {needed} times in a row"
            told = f"; {host.node.reasons[0].check}: {host.node.reasons[0].seen}" if host.node.reasons else ""
            found.append(intent_of(host, "none", f"{waits}{told}"[:200]))
    return tuple(found)
