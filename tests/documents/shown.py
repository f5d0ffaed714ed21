"""What the commands print of a document: whatever loads can be shown."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from raybench.documents.collection import CollectionReport
from raybench.documents.configuration import Configuration
from raybench.documents.fabric import FabricReport
from raybench.documents.preflight import PreflightReport
from raybench.documents.study.result import StudyResult
from raybench.preflight.lines import findings_lines, report_lines
from raybench.reports.fabric.terminal import print_fabric
from raybench.reports.hosts.collection import print_collection
from raybench.reports.hosts.configuration import configuration_lines
from raybench.reports.html import render_html
from raybench.reports.preflight.table import print_preflight
from raybench.reports.study.terminal import print_study


def _collection(report: CollectionReport) -> None:
    print_collection(report, io.StringIO())


def _configuration(report: Configuration) -> None:
    assert list(configuration_lines(report, diff=True))
    assert report.exit_code in {0, 1, 3}


def _fabric(report: FabricReport) -> None:
    print_fabric(report, io.StringIO(), width=100)
    render_html(report, drawn=False)
    assert report.conclusion.exit_code in {0, 1, 3}


def _preflight(report: PreflightReport) -> None:
    print_preflight(report, findings_lines(report), io.StringIO())
    assert report_lines(report)
    assert render_html(report)
    assert report.exit_code in {0, 1, 3}


def _study(study: StudyResult) -> None:
    """Both forms for a terminal; the page needs a second for its plots."""
    for full in (False, True):
        print_study(study, io.StringIO(), folder=Path("/nowhere"), full=full, width=80)


SHOWN: Mapping[str, Callable[[Any], object]] = {
    "CollectionReport": _collection,
    "Configuration": _configuration,
    "FabricReport": _fabric,
    "PreflightReport": _preflight,
    "StudyResult": _study,
}


def shown(document: Any) -> None:
    """Show it as its command would. Raises what the command would end with."""
    show = SHOWN.get(type(document).__name__)
    if show is not None:
        show(document)
