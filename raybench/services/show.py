"""A run that was measured before, as it was kept, with the diagnosis of its logs."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.part import read_as
from raybench.documents.reading import DocumentError
from raybench.documents.run.node_samples import FILE, NodeSamples
from raybench.documents.run.result import RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRun:
    """A run from its folder. ``report`` is its page, where there is one. ``remarks`` say what could not be read."""

    result: RunResult
    diagnosis: Diagnosis | None
    folder: Path
    report: Path | None
    remarks: tuple[str, ...]


def kept_run(path: Path) -> KeptRun:
    """The run in a folder or in a ``result.json``, of this or an earlier version. Raises UsageError.

    The findings of its logs' diagnosis count for a verdict that was not recorded. A diagnosis beside a file of another
    name is not taken for that of the run, and neither are samples of its nodes.
    """
    from msgspec.structs import replace

    from raybench.documents.run.result import result_file

    folder, remarks = path if path.is_dir() else path.parent, list[str]()
    result = RunResult.read(result_file(path), "the result")
    own = path.is_dir() or path.name == "result.json"
    diagnosis = _diagnosis(folder / "diagnosis.json", remarks) if own else None
    report = folder / "report.html"
    samples = _samples(folder / FILE, remarks) if own else None
    return KeptRun(
        result=replace(result, log_findings=diagnosis.findings if diagnosis else (), node_samples=samples),
        diagnosis=diagnosis,
        folder=folder,
        report=report if report.is_file() else None,
        remarks=tuple(remarks),
    )


def _diagnosis(path: Path, remarks: list[str]) -> Diagnosis | None:
    """The diagnosis in a file; None, and a remark, where there is none that can be read."""
    if not path.exists():
        return None
    try:
        return read_as(Diagnosis, path, "the diagnosis of its logs")
    except DocumentError as error:
        remarks.append(f"shown without the diagnosis of its logs: {error}")
        return None


def _samples(path: Path, remarks: list[str]) -> NodeSamples | None:
    """The samples in a file; None, and a remark where they cannot be read."""
    if not path.exists():
        return None
    try:
        return NodeSamples.read(path, "the samples of its nodes")
    except DocumentError as error:
        remarks.append(f"shown without the samples of its nodes: {error}")
        return None


def other_document(path: Path) -> Any | None:
    """The document of another command, such as a study, in a folder or a file; None where it is a run, or none at all.

    What an agent kept is samples.

    Raises UsageError for one that is damaged.
    """
    from raybench.documents.loading import KINDS, document_file, load_document
    from raybench.timeline.agent_file import agent_samples, is_agent_file

    if path.is_dir() and (path / "result.json").exists():
        return None
    try:
        with document_file(path).open("rb") as file:
            head = file.read(200)
    except (OSError, ValueError):
        return None
    if is_agent_file(head):
        return agent_samples(path)
    found = re.match(rb'\s*{\s*"schema"\s*:\s*"([\w.-]+)/', head)
    schema = found[1].decode("ascii", "replace") if found else ""
    return load_document(path) if schema in KINDS and schema != RunResult.SCHEMA.partition("/")[0] else None
