"""Any document on a terminal: its first line says what was found, tables take the form that fits, text stays text."""

import io
from pathlib import Path

import pytest

import raybench
from raybench.documents.cluster_status import ClusterNode, ClusterStatus
from raybench.documents.collection import CollectedFile, CollectedHost, CollectionReport
from raybench.documents.diagnosis import Diagnosis
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.table import BUILDERS, screen_of, terminal_report_of
from raybench.reports.model import Cell, Choice, Grid, Report, Table, Text
from raybench.reports.terminal.report import print_document, print_report
from tests.documents.mutation import REPORTS

RUNS = sorted((Path(__file__).parents[1] / "documents/samples").glob("*.json"))
NO_VERDICT = {
    "NodeSamples",
    "FabricPlan",
    "Study",
    "ExpectedBandwidth",
    "EstimateReport",
}  # they judge nothing, or not always


def shown(document: object, width: int = 80, *, full: bool = False) -> list[str]:
    stream = io.StringIO()
    print_document(document, stream, width=width, full=full)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("path", [*RUNS, *REPORTS], ids=lambda path: path.stem)
def test_the_first_line_of_every_document_is_its_verdict_or_says_what_it_is(path: Path) -> None:
    document = raybench.load(path)
    for full in (False, True):
        lines = shown(document, full=full)
        start = ("# VERDICT: ", "# raybench ") if type(document).__name__ in NO_VERDICT else "# VERDICT: "
        assert lines[0].startswith(start)
        verdict = lines[0] if lines[0].startswith("# VERDICT: ") else ""
        assert verdict in lines[-4:] or not verdict
        assert not verdict.rstrip().endswith(":"), "a verdict has its reason"
        assert "# " not in lines, "a line that says nothing"


@pytest.mark.parametrize("path", [*RUNS, *REPORTS], ids=lambda path: path.stem)
def test_what_has_a_screen_fits_it(path: Path) -> None:
    document = raybench.load(path)
    assert (screen_of(document, Asked()) is not None) == bool(BUILDERS[type(document).__name__].screen)
    if screen_of(document, Asked()):
        lines = shown(document)
        assert len(lines) <= 23
        assert max(map(len, lines)) <= 80


def test_a_choice_takes_the_first_form_that_fits_and_else_the_last() -> None:
    def table(columns: int) -> tuple[Table]:
        cells = tuple(Cell(text="x" * 9) for _ in range(columns))
        return (Table(grid=Grid(headings=("x" * 9,) * columns, rows=(cells,))),)

    made = Report(
        name="it", title="it", verdict="", reason="", lead="", when="",
        blocks=(Choice(forms=(table(10), table(5), (Text(text="too narrow"),))),),
    )  # fmt: skip
    for width, wanted in ((110, 10), (99, 5), (52, 5), (49, 0)):
        stream = io.StringIO()
        print_report(made, stream, width=width)
        text = stream.getvalue()
        assert text.count("x" * 9) == 2 * wanted, width
        assert ("too narrow" in text) == (wanted == 0)


def test_text_stands_left_and_figures_right() -> None:
    grid = Grid(
        headings=("name", "GB/s"), rows=tuple((Cell(text=a), Cell(text=b)) for a, b in (("a", "1"), ("bcd", "20")))
    )
    stream = io.StringIO()
    made = Report(name="it", title="", verdict="", reason="", lead="", when="", blocks=(Table(grid=grid),))
    print_report(made, stream, width=80)
    assert stream.getvalue().splitlines()[1:] == ["# name  GB/s", "  a        1", "  bcd     20"]


def node(name: str, **known: object) -> ClusterNode:
    return ClusterNode(name=name, role="worker", **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("action", "nodes", "verdict"),
    [
        ("status", [node("a", running=True, alive=True)], "OK: 1 of 1 node alive"),
        ("status", [node("a", running=True, alive=True), node("b", running=False)], "CRITICAL: 1 of 2 nodes alive"),
        ("status", [node("a", running=True, alive=None)], "CRITICAL: 0 of 1 node alive"),
        ("status", [node("a")], "UNKNOWN: 0 of 1 node alive"),
        ("status", [node("a", unreachable=True, problem="timed out")], "INCOMPLETE: 0 of 1 node alive"),
        ("down", [node("a", running=False)], "OK: 1 of 1 host without a Ray node of raybench's"),
        ("down", [node("a", running=True)], "INCOMPLETE: 0 of 1 host without a Ray node of raybench's"),
    ],
)
def test_a_cluster_is_ok_only_where_every_node_is_known_to_be(
    action: str, nodes: list[ClusterNode], verdict: str
) -> None:
    status = ClusterStatus(action=action, status="successful", nodes=tuple(nodes))  # type: ignore[arg-type]
    assert shown(status)[0] == f"# VERDICT: {verdict}"


def test_a_collection_without_logs_or_with_none_that_were_read_is_not_called_ok() -> None:
    file = CollectedFile(remote="/a", local="a", size_bytes=1, modified_at=0.0, complete=True)

    def collected(*files: CollectedFile, diagnosis: Diagnosis | None = None) -> CollectionReport:
        host = CollectedHost(
            name="a", status="complete", files=files, fetched_bytes=1, resumed=0, problems=(), notes=(), facts={}
        )
        return CollectionReport(folder="runs/x/hosts", hosts=(host,), diagnosis=diagnosis)

    assert shown(collected())[0] == "# VERDICT: UNKNOWN: no logs were found; 1 of 1 host complete: runs/x/hosts"
    assert "# VERDICT: UNKNOWN: the logs were not diagnosed" in shown(collected(file))[0]
    path = next(one for one in REPORTS if one.stem.startswith("diagnosis-72"))
    lines = shown(collected(file, diagnosis=raybench.load(path)))
    assert lines[0].startswith("# VERDICT: CRITICAL: logs: critical, network ib, with GPUDirect RDMA")


def test_a_host_cannot_send_control_characters_through_any_table() -> None:
    status = ClusterStatus(action="status", status="successful", nodes=(node("\x1b[2Jevil", alive=True, running=True),))
    text = "\n".join([*shown(status), *shown(status, 40)])
    assert "\x1b" not in text
    assert "\\x1b[2Jevil" in text
    assert terminal_report_of(status, Asked()).verdict == "ok"
