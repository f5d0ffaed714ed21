"""What the commands print of a document: whatever loads can be shown."""

import io
from typing import Any

from raybench.documents.fabric import FabricReport
from raybench.documents.preflight import PreflightReport
from raybench.preflight.lines import report_lines
from raybench.reports.builders.asked import Asked
from raybench.reports.html import render_html
from raybench.reports.terminal.report import print_document


def shown(document: Any) -> None:
    """Show it as its command would. Raises what the command would end with."""
    for full in (False, True):
        print_document(document, io.StringIO(), full=full, asked=Asked(diff=full), width=80)
    if isinstance(document, PreflightReport):
        assert report_lines(document)  # Ansible's
    if isinstance(document, PreflightReport | FabricReport):  # the page of a study needs a second for its plots
        render_html(document, drawn=False)
    code = getattr(document, "exit_code", None) or getattr(getattr(document, "conclusion", None), "exit_code", 0)
    assert code in {0, 1, 3}
