"""Ports of a fabric as its management's tools tell them: findings, then the files and what they tell of. Pure."""

from raybench.documents.fabric_ports import FabricPorts
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.findings import finding_blocks
from raybench.reports.findings_in_short import findings_view
from raybench.reports.model import Cell, Grid, Heading, Note, Notes, Report, Table


def fabric_ports_report(report: FabricPorts, _: Asked) -> Report:
    """The whole report."""
    name = "raybench fabric import"
    rows = tuple(
        (
            Cell(text=file.name),
            Cell(text=file.format or "not read: of no format that is known", tone="" if file.format else "soft"),
            Cell(text=str(file.ports)),
            Cell(text=str(file.complaints)),
            Cell(text=", ".join(file.covers)),
        )
        for file in report.files
    )
    headings = ("file", "format", "ports", "complaints", "tells of")
    unknown = (
        Note(text=f"{one}: in none of these files, so it is not known", tone="warn") for one in report.not_judged
    )
    return Report(
        name=name,
        title=f"{name}: {report.conclusion.verdict}",
        verdict=report.conclusion.verdict,
        reason=report.conclusion.reason,
        lead=f"{report.ports} ports of {report.nodes} nodes",
        when="",
        blocks=(
            Heading(text="What is at fault", anchor="findings"),
            *finding_blocks(findings_view(report.findings)),
            Heading(text="Files", anchor="files"),
            Table(grid=Grid(headings=headings, rows=rows), text_columns=5),
            *((Notes(items=tuple(unknown)),) if report.not_judged else ()),
        ),
    )
