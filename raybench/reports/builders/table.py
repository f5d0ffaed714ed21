"""The builder of each kind of document: a kind is a line here.

A builder makes a Report (``model.py``) of a typed document, and knows no format; formats are listed in ``formats.py``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from raybench.documents.cluster_status import ClusterStatus
from raybench.documents.collection import CollectionReport
from raybench.documents.configuration import Configuration
from raybench.documents.diagnosis import Diagnosis
from raybench.documents.estimate import EstimateReport
from raybench.documents.expectation import ExpectedBandwidth
from raybench.documents.fabric import FabricReport
from raybench.documents.fabric_plan import FabricPlan
from raybench.documents.preflight import PreflightReport
from raybench.documents.run.node_samples import NodeSamples
from raybench.documents.run.result import RunResult
from raybench.documents.run.summary import RunSummary
from raybench.documents.study.plan import Study
from raybench.documents.study.result import StudyResult
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.fabric import fabric_report
from raybench.reports.builders.figures import diagnosis_report, figures_report
from raybench.reports.builders.hosts import cluster_report, collection_report, configuration_report
from raybench.reports.builders.preflight import preflight_report
from raybench.reports.builders.run import run_report
from raybench.reports.builders.samples import samples_report
from raybench.reports.builders.study import study_report
from raybench.reports.model import Report

BUILDERS: Mapping[type[Any], Callable[[Any, Asked], Report]] = {
    RunResult: run_report,
    NodeSamples: samples_report,
    StudyResult: study_report,
    FabricReport: fabric_report,
    PreflightReport: preflight_report,
    CollectionReport: collection_report,
    Configuration: configuration_report,
    ClusterStatus: cluster_report,
    Diagnosis: diagnosis_report,
    EstimateReport: figures_report,
    ExpectedBandwidth: figures_report,
    FabricPlan: figures_report,
    Study: figures_report,
    RunSummary: figures_report,
}


def report_of(document: Any, asked: Asked) -> Report:
    """The report of a document that raybench wrote. Raises KeyError for anything else."""
    return BUILDERS[type(document)](document, asked)
