"""What was fetched from which host: ``hosts/collection.json`` of ``raybench collect``.

Schema ``raybench.collection/1``: keys are added, never renamed or removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.plain import PlainDocument, PlainPart
from raybench.verdicts import Verdict, exit_code_of

HostStatus = Literal["complete", "partial", "unreachable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedFile(PlainPart):
    """A file as it was fetched: the ``left_out_bytes`` at its beginning are missing, its tail is kept.

    ``complete`` is false while bytes of the kept tail are missing too.
    """

    remote: str
    local: str
    size_bytes: int
    modified_at: float
    left_out_bytes: int = 0
    complete: bool = False

    @property
    def kept_bytes(self) -> int:
        """Bytes that are here; 0 while some of them are missing."""
        return self.size_bytes - self.left_out_bytes if self.complete else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedHost(PlainPart):
    """One host. ``facts`` are what it said of itself: kernel, GPUs, versions; none of one that was not reached."""

    name: str
    status: HostStatus
    files: tuple[CollectedFile, ...]
    fetched_bytes: int
    resumed: int
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    facts: Mapping[str, Any]

    def contradiction(self) -> str | None:
        """Whether all that is listed of a complete host is here."""
        lacking = self.status == "complete" and not all(file.complete for file in self.files)
        return "it says complete, and a file is not" if lacking else None

    @property
    def kernel(self) -> str:
        """Its release; empty where it is not known."""
        return str(self.facts.get("kernel") or "")

    @property
    def gpu_count(self) -> int | None:
        """None where nothing is known of the host."""
        gpus = self.facts.get("gpus")
        return (len(gpus) if isinstance(gpus, list | tuple) else 0) if self.facts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionReport(PlainDocument):
    """The whole collection below ``folder``, with the diagnosis of its logs (``raybench.diagnosis/1``).

    ``named_paths``: the user said where logs are; None in the first ones, which do not say.
    """

    SCHEMA: ClassVar[str] = "raybench.collection/1"
    folder: str
    hosts: tuple[CollectedHost, ...]
    diagnosis: Diagnosis | None = None
    named_paths: bool | None = None

    @property
    def found_files(self) -> bool:
        """Whether anything was fetched, from any host."""
        return any(host.files for host in self.hosts)

    @property
    def verdict(self) -> Verdict:
        """That of the logs where all hosts are complete; ``ok`` without logs where nobody said that there are any."""
        if not all(host.status == "complete" for host in self.hosts):
            return "incomplete"
        if self.diagnosis is None:
            return "ok" if self.named_paths is False and not self.found_files else "unknown"
        if any(finding.severity == "critical" for finding in self.diagnosis.findings):
            return "critical"
        return "warning" if self.diagnosis.empty else self.diagnosis.verdict

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return exit_code_of(self.verdict)
