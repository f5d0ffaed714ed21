"""The builders of each kind of document: a kind is a line here.

A builder makes a Report (``model.py``) of a typed document, and knows no format; formats are listed in ``formats.py``.
It is imported when a document of its kind is shown.
"""

import importlib
from dataclasses import dataclass, replace
from typing import Any

from raybench.reports.builders.asked import Asked
from raybench.reports.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Builders:
    """The functions that make the reports of a kind, as ``module:function``; ``whole`` for every format.

    ``terminal``: for a terminal, where that is another one than the brief one of ``whole``. ``screen``: what fits a
    terminal of 80 by 24, with one table of a row a benchmark or variant, the last of which may be left out.
    """

    whole: str
    terminal: str = ""
    screen: str = ""


BUILDERS: dict[str, Builders] = {
    "RunResult": Builders(
        whole="run.report:run_report", terminal="run.tables:run_tables", screen="run.screen:run_screen"
    ),
    "NodeSamples": Builders(whole="samples:samples_report"),
    "StudyResult": Builders(
        whole="study:study_report", terminal="study:study_tables", screen="study_screen:study_screen"
    ),
    "FabricReport": Builders(whole="fabric:fabric_report", terminal="fabric_tables:fabric_tables"),
    "FabricPorts": Builders(whole="fabric_ports:fabric_ports_report"),
    "PreflightReport": Builders(whole="preflight:preflight_report", terminal="preflight_tables:preflight_tables"),
    "SelftestReport": Builders(whole="selftest:selftest_report", screen="selftest:selftest_screen"),
    "CollectionReport": Builders(whole="collection:collection_report"),
    "Configuration": Builders(whole="configuration:configuration_report"),
    "Comparison": Builders(whole="comparison:comparison_report", screen="comparison:comparison_screen"),
    "History": Builders(whole="history:history_report", screen="history:history_screen"),
    "ClusterStatus": Builders(whole="cluster:cluster_report"),
    "Diagnosis": Builders(whole="figures:diagnosis_report"),
    "EstimateReport": Builders(
        whole="figures:figures_report",
        terminal="estimates.estimate:estimate_tables",
        screen="estimates.estimate_screen:estimate_screen",
    ),
    "TrainingPlan": Builders(
        whole="figures:figures_report",
        terminal="estimates.training_plan:plan_tables",
        screen="estimates.training_plan:plan_screen",
    ),
    "ExpectedBandwidth": Builders(whole="figures:figures_report", terminal="expectation:expected_tables"),
    "FabricPlan": Builders(whole="figures:figures_report", terminal="fabric_plan:plan_tables"),
    "Study": Builders(whole="figures:figures_report", terminal="study_plan:plan_tables"),
    "StandaloneResult": Builders(whole="figures:figures_report"),
    "RunsBaseline": Builders(whole="figures:figures_report"),
    "RunSummary": Builders(whole="figures:figures_report", terminal="summary:summary_tables"),
}


def report_of(document: Any, asked: Asked) -> Report:
    """The report of a document that raybench wrote. Raises KeyError for anything else."""
    return _made(BUILDERS[type(document).__name__].whole, document, asked)


def terminal_report_of(document: Any, asked: Asked) -> Report:
    """The same for a terminal: all its tables, without what is behind a fold of a page."""
    builders = BUILDERS[type(document).__name__]
    return _made(builders.terminal or builders.whole, document, replace(asked, brief=True))


def screen_of(document: Any, asked: Asked) -> Report | None:
    """What is shown of it on one screen; None where it has no form for that."""
    screen = BUILDERS[type(document).__name__].screen
    return _made(screen, document, asked) if screen else None


def _made(builder: str, document: Any, asked: Asked) -> Report:
    module, _, function = builder.partition(":")
    report: Report = getattr(importlib.import_module(f"raybench.reports.builders.{module}"), function)(document, asked)
    return report
