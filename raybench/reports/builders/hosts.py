"""The reports of what was done on hosts: collect, configure, cluster. Pure."""

from raybench.documents.cluster_status import ClusterStatus
from raybench.documents.collection import CollectionReport
from raybench.documents.configuration import Configuration
from raybench.reports.builders.asked import Asked
from raybench.reports.hosts import cluster, collection
from raybench.reports.hosts.configuration import configuration_lines
from raybench.reports.model import Block, Cell, Grid, Report, Table, notes_of


def collection_report(report: CollectionReport, _: Asked) -> Report:
    """A row a host, then its problems."""
    rows = tuple(tuple(Cell(text=text) for text in collection.cells_of(host)) for host in report.hosts)
    *remarks, total = collection.remarks_of(report)
    table = Table(grid=Grid(headings=collection.COLUMNS, rows=rows), text_columns=2)
    return _report("raybench collect", total, (table, *notes_of(remarks)))


def cluster_report(report: ClusterStatus, _: Asked) -> Report:
    """A row a host, then what is wrong with which."""
    rows = tuple(tuple(Cell(text=text) for text in cluster.cells_of(node, report.action)) for node in report.nodes)
    *remarks, total = cluster.remarks_of(report)
    table = Table(grid=Grid(headings=cluster.COLUMNS, rows=rows), text_columns=len(cluster.COLUMNS))
    return _report(f"raybench cluster {report.action}", total, (table, *notes_of(remarks)))


def configuration_report(report: Configuration, _: Asked) -> Report:
    """Hosts that fared alike in one line, then what is left for a person to do."""
    *lines, total = configuration_lines(report)
    return _report(f"raybench {report.action}", total.removeprefix("# "), notes_of(lines))


def _report(name: str, lead: str, blocks: tuple[Block, ...]) -> Report:
    return Report(name=name, title=name, verdict="", reason="", lead=lead, when="", blocks=blocks)
