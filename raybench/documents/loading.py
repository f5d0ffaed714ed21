"""Which document a file is: its schema says so, and the module of that document reads it."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raybench.documents.part import document_as
from raybench.documents.reading import DocumentError, json_of_file

# In the folder of a run or of a study, which of them it is asked for by the folder's name.
FILES = ("result.json", "study.json", "preflight.json", "fabric.json", "selftest.json", "hosts/collection.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """What a schema is called in errors, and the class that reads and writes it."""

    title: str
    module: str
    name: str


KINDS: Mapping[str, DocumentKind] = {
    "raybench.result": DocumentKind(title="the result", module="run.result", name="RunResult"),
    "raybench.study-result": DocumentKind(title="the study", module="study.result", name="StudyResult"),
    "raybench.study": DocumentKind(title="the study's plan", module="study.plan", name="Study"),
    "raybench.estimate": DocumentKind(title="the estimate", module="estimate", name="EstimateReport"),
    "raybench.training-plan": DocumentKind(title="the plan", module="training_plan", name="TrainingPlan"),
    "raybench.standalone": DocumentKind(title="the result", module="run.standalone", name="StandaloneResult"),
    "raybench.summary": DocumentKind(title="the summary", module="run.summary", name="RunSummary"),
    "raybench.diagnosis": DocumentKind(title="the diagnosis", module="diagnosis", name="Diagnosis"),
    "raybench.expected": DocumentKind(title="the expectation", module="expectation", name="ExpectedBandwidth"),
    "raybench.fabric": DocumentKind(title="the fabric report", module="fabric", name="FabricReport"),
    "raybench.fabric-plan": DocumentKind(title="the fabric plan", module="fabric_plan", name="FabricPlan"),
    "raybench.fabric-ports": DocumentKind(title="the fabric's ports", module="fabric_ports", name="FabricPorts"),
    "raybench.cluster_status": DocumentKind(
        title="the cluster's status", module="cluster_status", name="ClusterStatus"
    ),
    "raybench.preflight": DocumentKind(title="the preflight report", module="preflight", name="PreflightReport"),
    "raybench.collection": DocumentKind(title="the collection", module="collection", name="CollectionReport"),
    "raybench.node_samples": DocumentKind(title="the samples", module="run.node_samples", name="NodeSamples"),
    "raybench.selftest": DocumentKind(title="the selftest", module="selftest", name="SelftestReport"),
    "raybench.baseline": DocumentKind(title="the baseline", module="comparison.baseline", name="RunsBaseline"),
    "raybench.comparison": DocumentKind(title="the comparison", module="comparison.comparison", name="Comparison"),
    "raybench.history": DocumentKind(title="the history", module="comparison.history", name="History"),
    "raybench.configure": DocumentKind(title="the configuration", module="configuration", name="Configuration"),
}


def load_document(path: Path) -> Any:
    """The document in a file, or in the folder of a run or a study. Raises DocumentError."""
    file = document_file(path)
    return document_in(json_of_file(file, "the document"), str(file))


def document_in(content: object, where: str) -> Any:
    """The document of a JSON; ``where`` is its file in errors."""
    schema = content.get("schema") if isinstance(content, dict) else None
    kind = _kind_of(schema)
    if kind is None:
        found = f"its schema is {str(schema)[:80]!r}" if schema is not None else "it has no schema"
        raise DocumentError(f"{where} is not a document of raybench: {found}; loaded are {', '.join(KINDS)}")
    document = getattr(importlib.import_module(f"raybench.documents.{kind.module}"), kind.name)
    return document_as(document, content, f"{kind.title} {where}")


def is_document(content: object) -> bool:
    """Whether a JSON says that it is a document of a kind that is loaded."""
    return isinstance(content, dict) and _kind_of(content.get("schema")) is not None


def _kind_of(schema: object) -> DocumentKind | None:
    return KINDS.get(schema.partition("/")[0]) if isinstance(schema, str) else None


def document_file(path: Path) -> Path:
    """The file of a run or a study that is named by its file, or by its folder. Raises DocumentError."""
    if not path.is_dir():
        return path
    found = next((path / name for name in FILES if (path / name).exists()), None)
    if found is None and (path / "plan.json").exists():
        raise DocumentError(f"{path} is a study that has no study.json yet: 'raybench study show {path}' writes it")
    return found or path / FILES[0]
