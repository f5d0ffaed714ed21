"""What a fabric test measured and found: ``fabric.json`` of ``raybench fabric run`` and ``fabric.yml``.

Schema ``raybench.fabric/1``: keys are added, never renamed or removed. The standard library is all that it needs, since
the playbook writes it. Figures are Gb/s (10^9 bits), or microseconds of latency (``unit``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from diagnostics.findings import Finding, Recommendation
from raybench.documents.plain import Json, PlainDocument, PlainPart
from raybench.finding_rules.fabric import recorded_suspect_rule
from raybench.verdicts import Conclusion, RunStatus, TestVerdict, Verdict

if TYPE_CHECKING:
    from pandas import DataFrame

_FIRST_VERDICTS = {"pass": "ok", "warn": "warning", "fail": "critical", "error": "incomplete"}
_MOST = 1e9  # Gb/s, microseconds: beyond any


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricEnd(PlainPart):
    """One end of a test."""

    host: str
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricTest(PlainPart):
    """One direction of a pair on a rail. ``value`` is None where it gave no figure; ``limit`` the worst that passes.

    ``counters`` are those that grew during the test, by side (source, destination) and name.
    """

    check: str = "fabric-pair"
    source: FabricEnd
    destination: FabricEnd
    rail: str
    round: int
    value: float | None
    limit: float | None
    typical: float | None
    expected_gbit_per_s: float | None
    verdict: TestVerdict
    seen: str
    expected: str
    basis: str
    advice: str
    notes: tuple[str, ...] = ()
    counters: Mapping[str, Mapping[str, int]]

    def contradiction(self) -> str | None:
        """Whether it is a figure."""
        if self.value is not None and not 0 <= self.value < _MOST:
            return f"a figure of {self.value:g}"
        return "a test that passed without a figure" if self.value is None and self.verdict == "pass" else None

    @property
    def share(self) -> float:
        """Of what is typical; the figure itself where nothing is, or there is none."""
        return (self.value or 0.0) / (self.typical or 1.0)

    @property
    def path(self) -> tuple[str, str]:
        """Hosts: from, to."""
        return self.source.host, self.destination.host


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPort(PlainPart):
    """The port of a host on a rail."""

    rail: str
    device: str
    rate: str
    state: str
    driver: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricProblem(PlainPart):
    """What kept a host or its device from being tested. ``fault``: something there is broken."""

    seen: str
    advice: str
    device: str | None
    fault: bool

    @property
    def verdict(self) -> TestVerdict:
        """A fault fails; everything else is no more than not tested."""
        return "fail" if self.fault else "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricHost(PlainPart):
    """One host of the inventory. Of one that was not reached nothing is known but the problem."""

    name: str
    verdict: TestVerdict
    reachable: bool = True
    address: str | None = None
    leaf: str | None = None
    ports: tuple[FabricPort, ...] = ()
    tool_version: str | None = None
    problems: tuple[FabricProblem, ...]

    def to_json(self) -> Json:
        """Reachable is what a host is unless it says that it is not."""
        content = PlainPart.to_json(self)
        if self.reachable:
            del content["reachable"]
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricRail(PlainPart):
    """Ports that are connected with each other, and how many tests of them there were."""

    name: str
    devices: tuple[str, ...]
    hosts: int
    tests: int
    slow: int
    failed: int
    least: float | None
    most: float | None
    emulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSuspect(PlainPart):
    """What is at fault, the gravest first. ``confirmed``: it was tested again against others."""

    rank: int
    check: str
    kind: str
    hosts: tuple[str, ...]
    rails: tuple[str, ...]
    confirmed: bool
    verdict: TestVerdict
    summary: str
    seen: str
    expected: str
    basis: str
    advice: str

    @property
    def finding(self) -> Finding:
        """The same in the form of every finding; of a kind that only a later raybench knows it is open what it is."""
        return recorded_suspect_rule(self.kind).finding(
            severity="critical" if self.verdict == "fail" else "warning",
            confidence="likely" if self.confirmed else "possible",
            summary=self.summary,
            explanation=f"Seen: {self.seen}. Expected: {self.expected} ({self.basis}).",
            hosts=self.hosts,
            recommendations=(Recommendation(action=self.check, text=self.advice),) if self.advice else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricRounds(PlainPart):
    """Rounds that were run: those of the scope, and those to find the cause."""

    scan: int
    confirm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricReport(PlainDocument):
    """The whole test. ``settings`` are those of the run by name."""

    SCHEMA: ClassVar[str] = "raybench.fabric/1"
    run_id: str
    status: RunStatus
    verdict: Verdict
    verdict_reason: str
    started_at: str
    finished_at: str
    tool: str
    unit: Literal["Gb/s", "us"]
    scope: str
    emulated: bool
    rounds: FabricRounds
    settings: Mapping[str, Any]
    hosts: tuple[FabricHost, ...]
    rails: tuple[FabricRail, ...]
    pairs: tuple[FabricTest, ...]
    suspects: tuple[FabricSuspect, ...]
    notes: tuple[str, ...]

    @classmethod
    def stored(cls, content: Json) -> Json:
        """The first ones had a check's verdict for the whole, and no reason for it."""
        if "verdict_reason" in content or content.get("verdict") not in _FIRST_VERDICTS:
            return content
        return content | {"verdict": _FIRST_VERDICTS[content["verdict"]], "verdict_reason": _first_reason(content)}

    def contradiction(self) -> str | None:
        """Whether it is better than what is in it, and all hosts that were tested are there."""
        if self.verdict == "ok" and {"fail", "error"} & self._verdicts:
            return "it says ok, and something in it failed"
        missing = {name for test in self.pairs for name in test.path} - {host.name for host in self.hosts}
        return f"a test of {min(missing)!r}, which is none of its hosts" if missing else None

    @property
    def _verdicts(self) -> set[TestVerdict]:
        return {one.verdict for one in self.suspects} | {one.verdict for one in self.hosts}

    @property
    def conclusion(self) -> Conclusion:
        """Its verdict, with the exit code."""
        return Conclusion(verdict=self.verdict, reason=self.verdict_reason)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Its suspects, each by its rule, the gravest first."""
        return tuple(one.finding for one in self.suspects)

    @property
    def problems(self) -> Iterator[tuple[FabricHost, FabricProblem]]:
        """Of all hosts."""
        return ((host, problem) for host in self.hosts for problem in host.problems)

    def matrix(self, rail: str) -> Mapping[tuple[str, str], FabricTest]:
        """(source, destination) -> its test on a rail; the last of several."""
        return {test.path: test for test in self.pairs if test.rail == rail}

    def to_dataframe(self) -> "DataFrame":
        """A row a test of a pair, in ``unit`` (docs/api.md). Raises MissingLibraryError without pandas."""
        from raybench.documents.table import columns_of, dataframe, row_of  # the playbook that writes it needs neither

        rows = ({**row_of(test), "unit": self.unit} for test in self.pairs)
        return dataframe(rows, (*columns_of(FabricTest), "unit"))

    def hosts_of(self, rail: str) -> tuple[str, ...]:
        """Hosts with a test on a rail, in the inventory's order."""
        measured = {host for path in self.matrix(rail) for host in path}
        return tuple(host.name for host in self.hosts if host.name in measured)


def _first_reason(content: Json) -> str:
    """What the first ones would have said: their gravest suspect, else a note."""
    suspects, notes = content.get("suspects"), content.get("notes")
    if isinstance(suspects, list) and suspects and isinstance(suspects[0], dict):
        return str(suspects[0].get("summary"))
    return str(notes[0]) if isinstance(notes, list) and notes else f"{content['verdict']}, written without a reason"
