"""The diagnosis of NCCL's logs: ``diagnosis.json``, and ``raybench diagnose --format json``. ``diagnostics`` writes it.

Schema ``raybench.diagnosis/1``: keys are added, never renamed or removed. What a log cannot tell is None.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from diagnostics.findings import SCHEMA, Finding, Verdict
from raybench.documents.part import FieldwiseDocument, FieldwisePart, part_of, take
from raybench.documents.plain import Json
from raybench.documents.quantity import Count


class DiagnosedRank(FieldwisePart, frozen=True, kw_only=True):
    """One rank as the logs show it. ``pid`` is in every line that NCCL writes."""

    rank: int
    host: str | None = None
    pid: int | str | None = None
    device: str | None = None
    network: str | None = None
    nics: Count | None = None
    transports: tuple[str, ...] = ()
    initialised: bool | None = None


class Counters(FieldwisePart, frozen=True, kw_only=True):
    """What was counted in the logs. ``gdr_channel_share``: of channels over the network."""

    gdr_channel_share: float | None = None
    ofi_providers: tuple[str, ...] = ()  # of libfabric


class LineCounts(FieldwisePart, frozen=True, kw_only=True):
    """Lines read, lines of NCCL or PyTorch among them, and lines that could not be used (binary, torn, too long)."""

    read: Count = 0
    nccl: Count = 0
    unreadable: Count = 0


class CannotTell(FieldwisePart, frozen=True, kw_only=True):
    """A rule that the log does not answer, and the setting that would."""

    rule: str
    why: str


class Diagnosis(FieldwiseDocument, frozen=True, kw_only=True):
    """The network that NCCL took, who spoke in the logs, and what was found. ``gdr``: GPUDirect RDMA.

    ``jobs``: the diagnosis of each where several were read; the whole then says what they agree on, with the findings
    of all. ``notes``: what was left out while reading.
    """

    verdict: Verdict = "unknown"
    explanation: str = ""
    network: str = "unknown"
    gdr: bool | None = None
    tcp_fallback: bool | None = None
    nccl_versions: tuple[str, ...] = ()
    world_size: Count | None = None
    nodes: Count | None = None
    ranks: tuple[DiagnosedRank, ...] = ()
    ranks_not_listed: Count | None = None
    missing_ranks: tuple[Count, ...] = ()
    findings: tuple[Finding, ...] = ()
    rules_clear: tuple[str, ...] = ()
    rules_cannot_tell: tuple[CannotTell, ...] = ()
    lines: LineCounts = field(default_factory=LineCounts)
    counters: Counters = field(default_factory=Counters)
    notes: tuple[str, ...] = ()
    job: str = ""
    jobs: "tuple[Diagnosis, ...]" = ()
    SCHEMA: ClassVar[str] = SCHEMA

    def contradiction(self) -> str | None:
        """Whether it is better than what was found."""
        grave = any(one.severity == "critical" for one in self.findings)
        return "it says ok, and a finding is critical" if self.verdict == "ok" and grave else None

    @property
    def in_brief(self) -> str:
        """``ok, network ib, with GPUDirect RDMA, 0 findings``."""
        gdr = {True: "with GPUDirect RDMA", False: "without GPUDirect RDMA", None: "GPUDirect RDMA unknown"}[self.gdr]
        return f"{self.verdict}, network {self.network}, {gdr}, {len(self.findings)} findings"

    def to_json(self) -> Json:
        """With the name of a job, and the jobs, where there are any."""
        content = super().to_json()
        return {key: value for key, value in content.items() if value or key not in {"job", "jobs"}}


def findings_in(diagnosis: Mapping[str, Any] | None) -> tuple[Finding, ...]:
    """The findings of a diagnosis that is still JSON. Raises DocumentError."""
    if diagnosis is None:
        return ()
    found = (take(dict(diagnosis), "findings", of=list[dict[str, Any]])) or []
    return tuple(part_of(Finding, one, f"finding {number} of the diagnosis") for number, one in enumerate(found, 1))
