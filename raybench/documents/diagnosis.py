"""The diagnosis of a run's logs (``diagnosis.json``), as far as it is read here: ``diagnostics`` writes it.

What a log cannot tell is None.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from diagnostics.findings import SCHEMA, Finding
from raybench.documents.part import FieldwiseDocument, FieldwisePart, part_of, take


class DiagnosedRank(FieldwisePart, frozen=True, kw_only=True):
    """One rank as the logs show it. ``pid`` is in every line that NCCL writes."""

    rank: int
    pid: int | str | None = None
    network: str | None = None


class Counters(FieldwisePart, frozen=True, kw_only=True):
    """What was counted in the logs. ``gdr_channel_share``: of channels over the network."""

    gdr_channel_share: float | None = None
    ofi_providers: tuple[str, ...] = ()  # of libfabric


class Diagnosis(FieldwiseDocument, frozen=True, kw_only=True):
    """The network that NCCL took, who spoke in the logs, and what was found. ``gdr``: GPUDirect RDMA."""

    network: str = "unknown"
    gdr: bool | None = None
    ranks: tuple[DiagnosedRank, ...] = ()
    findings: tuple[Finding, ...] = ()
    counters: Counters = field(default_factory=Counters)
    SCHEMA: ClassVar[str] = SCHEMA


def findings_in(diagnosis: Mapping[str, Any] | None) -> tuple[Finding, ...]:
    """The findings of a diagnosis that is still JSON. Raises DocumentError."""
    if diagnosis is None:
        return ()
    found = (take(dict(diagnosis), "findings", of=list[dict[str, Any]])) or []
    return tuple(part_of(Finding, one, f"finding {number} of the diagnosis") for number, one in enumerate(found, 1))
