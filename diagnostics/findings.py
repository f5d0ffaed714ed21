"""Judgements: what a rule concluded, and the whole diagnosis as the contract ``raybench.diagnosis/1`` writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from diagnostics.plain_part import AnyDocument, Json, PlainPart, json_of

SCHEMA = "raybench.diagnosis/1"

Severity = Literal["critical", "warning", "info"]
Confidence = Literal["certain", "likely", "possible"]
Verdict = Literal["ok", "warning", "critical", "unknown"]

SEVERITY_ORDER: Mapping[str, int] = {"critical": 0, "warning": 1, "info": 2}
_NAMED = 5  # rules named with a reason that many share


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(PlainPart):
    """A line that a finding rests on. ``line`` counts from 1."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation(PlainPart):
    """What to try. ``commands`` can be typed as they stand, placeholders in angle brackets apart."""

    action: str
    text: str
    commands: tuple[str, ...] = ()
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPairs(PlainPart):
    """The measured pairs that a finding compares; ``direction`` is empty where both are slow.

    ``listed``: the pairs that are slow themselves; None where a rank or a node stands for all of its own.
    """

    benchmark: str
    message_bytes: int
    between_nodes: bool
    direction: str
    listed: tuple[tuple[int, int], ...] | None = None

    def to_json(self) -> Json:
        """With the pairs where they are listed."""
        content = PlainPart.to_json(self)
        if self.listed is None:
            del content["listed"]
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(PlainPart):
    """One conclusion of one rule: of logs, of a run, of its ranks and pairs, of a fabric.

    Of logs: ``occurrences`` counts the lines that say so, None where it rests on none. ``victims`` are lines that are
    consequences of this finding (peers closing, flush errors). ``sequence`` is the position of the first line it rests
    on. ``actions`` name what to try, before it is adapted to the environment.

    Of a run: ``pairs`` are what was compared. Where it ended the run, ``step`` is where that was, ``component`` the
    process at fault, and ``broken_with`` what else was reported then; None where the run went on.
    """

    rule: str
    severity: Severity
    confidence: Confidence
    summary: str
    explanation: str
    evidence: tuple[Evidence, ...] = ()
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    occurrences: int | None = None
    victims: tuple[Evidence, ...] = ()
    job: str = ""  # whose finding it is, where several jobs were given
    pairs: MeasuredPairs | None = None
    step: str | None = None
    component: str | None = None
    broken_with: tuple[str, ...] | None = None
    # of the judging alone, and in no document:
    sequence: int = field(default=0, compare=False)
    actions: tuple[str, ...] = field(default=(), compare=False)
    blocks: bool = field(default=False, compare=False)  # the run stops at it, though its kind only slows a run down
    own: bool = field(default=False, compare=False)  # of a rank's own side: no other rank that ended brings it about

    @classmethod
    def stored(cls, content: Json) -> Json:
        """A run's ``victims`` are words, those of logs lines. What a finding does not say of itself is not made up."""
        content = {"confidence": "possible", "explanation": "", **content}
        victims: Any = content.get("victims")
        if "occurrences" in content or not isinstance(victims, list) or any(isinstance(one, dict) for one in victims):
            return content
        return {key: value for key, value in content.items() if key != "victims"} | {"broken_with": victims}

    @property
    def ended_the_run(self) -> bool:
        """Whether the run is not complete for it."""
        return self.broken_with is not None

    def without_lines(self) -> "Finding":
        """The same for a document that refers to the one which has its lines."""
        return replace(self, evidence=(), victims=(), occurrences=None)

    def to_json(self) -> Json:
        """The finding as in the contract; keys that are of logs, or of a run, only where it is of them."""
        of_logs = self.occurrences is not None
        return self.with_unknown(
            {
                **({"job": self.job} if self.job else {}),
                "rule": self.rule,
                "severity": self.severity,
                "confidence": self.confidence,
                "summary": self.summary,
                "explanation": self.explanation,
                "ranks": list(self.ranks),
                "hosts": list(self.hosts),
                **({"occurrences": self.occurrences} if of_logs else {}),
                **({"pairs": self.pairs.to_json()} if self.pairs else {}),
                **({"step": self.step, "component": self.component} if self.ended_the_run else {}),
                "evidence": json_of(self.evidence),
                **({"victims": json_of(self.victims)} if of_logs else {}),
                "recommendations": json_of(self.recommendations),
                **({"victims": list(self.broken_with)} if self.broken_with is not None else {}),
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow(PlainPart):
    """One rank as the log shows it; None or an empty tuple where it does not. ``pid`` is in every line of NCCL's."""

    rank: int
    host: str | None = None
    pid: int | str | None = None
    device: str | None = None
    network: str | None = None
    nics: int | None = None
    transports: tuple[str, ...] = ()
    initialised: bool | None = None

    def contradiction(self) -> str | None:
        """Whether it has so many NICs."""
        return _below_zero(nics=self.nics)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCounts(PlainPart):
    """Lines read, lines of NCCL or PyTorch among them, and lines that could not be used (binary, torn, too long)."""

    read: int = 0
    nccl: int = 0
    unreadable: int = 0

    def contradiction(self) -> str | None:
        """Whether so many can be read."""
        return _below_zero(read=self.read, nccl=self.nccl, unreadable=self.unreadable)


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotTell(PlainPart):
    """A rule that the log does not answer, and the setting that would."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(AnyDocument, PlainPart):
    """Everything that is concluded from the logs: ``diagnosis.json``. None means that the log cannot tell.

    Of several jobs, ``jobs`` holds the diagnosis of each under its name; the whole says what they agree on, and has the
    findings of all.
    """

    SCHEMA: ClassVar[str] = SCHEMA
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema", "ranks_not_listed"})
    verdict: Verdict = "unknown"
    explanation: str = ""
    not_shown: str = ""  # beside a warning: what the log leaves open of the job's start or end
    network: str = "unknown"
    gdr: bool | None = None  # GPUDirect RDMA
    tcp_fallback: bool | None = None
    nccl_versions: tuple[str, ...] = ()
    world_size: int | None = None
    nodes: int | None = None
    ranks: tuple[RankRow, ...] = ()
    missing_ranks: tuple[int, ...] = ()
    findings: tuple[Finding, ...] = ()
    rules_clear: tuple[str, ...] = ()
    rules_cannot_tell: tuple[CannotTell, ...] = ()
    lines: LineCounts = field(default_factory=LineCounts)
    counters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what was left out while reading: damaged files, cut lines
    job: str = ""
    jobs: tuple["Diagnosis", ...] = ()

    def contradiction(self) -> str | None:
        """Whether it is better than what was found, and what is counted in it has its type."""
        if self.verdict == "ok" and any(one.severity == "critical" for one in self.findings):
            return "it says ok, and a finding is critical"
        if not isinstance(self.counters.get("gdr_channel_share"), int | float | None):
            return "a gdr_channel_share that is not a number"
        providers = self.counters.get("ofi_providers", [])
        if not isinstance(providers, list | tuple) or not all(isinstance(one, str) for one in providers):
            return "ofi_providers that are not names"
        return _below_zero(
            world_size=self.world_size, nodes=self.nodes, missing_ranks=min(self.missing_ranks, default=0)
        )

    @property
    def gdr_channel_share(self) -> float | None:
        """Of the channels over the network, those with GPUDirect RDMA; None where there are none."""
        share = self.counters.get("gdr_channel_share")
        return None if share is None else float(share)

    @property
    def ofi_providers(self) -> tuple[str, ...]:
        """Of libfabric."""
        return tuple(self.counters.get("ofi_providers", ()))

    @property
    def in_brief(self) -> str:
        """``ok, network ib, with GPUDirect RDMA, 0 findings``."""
        gdr = {True: "with GPUDirect RDMA", False: "without GPUDirect RDMA", None: "GPUDirect RDMA unknown"}[self.gdr]
        return f"{self.verdict}, network {self.network}, {gdr}, {len(self.findings)} findings"

    @property
    def empty(self) -> bool:
        """Whether there was nothing to judge: no line of NCCL or PyTorch, no table, no dump, no finding above info."""
        read = self.lines.nccl or self.counters.get("flight_records") or self.verdict == "ok"
        return not read and all(finding.severity == "info" for finding in self.findings)

    @property
    def ranks_not_listed(self) -> int | None:
        """Ranks of the world without a row; None where its size is unknown."""
        return None if self.world_size is None else max(self.world_size - len(self.ranks), 0)

    @property
    def open_questions(self) -> tuple[tuple[str, str], ...]:
        """Rules that cannot tell, the first few by name, and why; those with the same reason together."""
        rules: dict[str, list[str]] = {}
        for unsure in self.rules_cannot_tell:
            rules.setdefault(unsure.why, []).append(unsure.rule)
        return tuple((_first_few(names), why) for why, names in rules.items())

    def to_json(self) -> Json:
        """The diagnosis as in the contract; keys are added, never renamed or removed."""
        content: Json = {"schema": SCHEMA}
        for name, value in PlainPart.to_json(self).items():
            if value or name not in {"job", "jobs", "not_shown"}:
                content[name] = value
            if name == "ranks":
                content["ranks_not_listed"] = self.ranks_not_listed
        return content

    def html_page(self) -> str:
        """The page of ``raybench diagnose --format html``."""
        from diagnostics.output.html import render

        return render(self)


def _below_zero(**counts: int | None) -> str | None:
    """Which of some counts is none; None where all are."""
    return next((f"{name} is {count}" for name, count in counts.items() if count is not None and count < 0), None)


def _first_few(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
