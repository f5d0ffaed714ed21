"""What a rule over samples is: a pure function from a window to what it sees there, with the page that explains it."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from diagnostics.agent.window import Window
from diagnostics.finding_rule import FindingRule
from diagnostics.findings import Confidence, Evidence, Finding, Recommendation, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a rule sees now. ``device`` tells two findings of a rule apart; ``series`` or ``line`` show it."""

    device: str
    finding: Finding
    since_seconds: float
    series: tuple[str, ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRule(FindingRule):
    """A question asked of each window, or only each so many seconds where it costs more than a look.

    Its page is the docstring of its module; ``<device>`` in its advice is filled in.
    """

    check: Callable[[Window], Iterator[Observed]]
    recommended: tuple[Recommendation, ...]
    every_seconds: float = 0.0
    longest_interval_seconds: float = math.inf  # between readings, up to which it can tell

    @property
    def page(self) -> str:
        """Title line, symptom, reason, limits and source."""
        return (sys.modules[self.check.__module__].__doc__ or "").strip()

    @property
    def advice(self) -> tuple[Recommendation, ...]:
        """What to do, for a reader of the page."""
        return self.recommended

    def observed(
        self,
        window: Window,
        *,
        device: str,
        summary: str,
        explanation: str,
        since_seconds: float,
        confidence: Confidence = "certain",
        severity: Severity | None = None,
        series: Iterable[str] = (),
        line: str = "",
    ) -> Observed:
        """A finding on a device of the window's machine, whose name the summary begins with."""
        return Observed(
            device=device,
            finding=self.finding(
                confidence=confidence,
                severity=severity,
                summary=f"{window.host} {summary}",
                explanation=explanation,
                hosts=(window.host,),
                evidence=(Evidence(file="kernel log", line=0, text=line),) if line else (),
                recommendations=_of_device(self.recommended, device),
            ),
            since_seconds=since_seconds,
            series=tuple(series),
            line=line,
        )


def _of_device(advice: tuple[Recommendation, ...], device: str) -> tuple[Recommendation, ...]:
    name = device.partition(":")[0] or "<device>"  # mlx5_0 of mlx5_0:1
    return tuple(
        replace(one, commands=tuple(command.replace("<device>", name) for command in one.commands)) for one in advice
    )


def advice(action: str, text: str, *commands: str, link: str | None = None) -> tuple[Recommendation, ...]:
    """One thing to do."""
    return (Recommendation(action=action, text=text, commands=commands, link=link),)
