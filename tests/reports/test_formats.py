"""Every format shows every kind of document and every block of a report; the command lists the formats by itself."""

import ast
import importlib
import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import raybench
import raybench.reports
from raybench.cli import show
from raybench.documents.loading import KINDS
from raybench.reports.builders import asked, table
from raybench.reports.builders.asked import Asked
from raybench.reports.formats import FORMATS
from raybench.reports.model import (
    BLOCKS,
    Banner,
    Block,
    Cell,
    Choice,
    Details,
    Facts,
    Figure,
    Finding,
    Grid,
    Heading,
    Note,
    Notes,
    Preformatted,
    Report,
    Table,
    Text,
)  # fmt: skip
from raybench.reports.plots.svg import Plot
from raybench.reports.terminal.report import print_report
from tests.documents.mutation import REPORTS

PACKAGE = Path(raybench.reports.__file__).parent
RESULTS = sorted((Path(__file__).parents[1] / "documents/samples").glob("*.json"))
NO_BLOCKS = {"json": "the document itself", "csv": "tables, names with values, and notes"}  # any other shows all
PLOT = Plot(
    name="p",
    title="a plot",
    description="what it shows",
    caption="its caption",
    svg="<svg><desc>what it shows</desc></svg>",
)
BLOCK_OF: Mapping[type[Block], tuple[Block, tuple[str, ...]]] = {
    Heading: (Heading(text="a heading"), ("a heading",)),
    Banner: (Banner(text="not to be missed", tone="warn"), ("not to be missed",)),
    Text: (Text(text="a paragraph", link="https://docs.example/page"), ("a paragraph", "https://docs.example/page")),
    Notes: (Notes(items=(Note(subject="of it", text=": a note"),)), ("of it", "a note")),
    Facts: (Facts(pairs=(("a name", "a value"),)), ("a name", "a value")),
    Table: (
        Table(grid=Grid(headings=("a column",), rows=((Cell(text="a cell"),),)), caption="what the cells are"),
        ("a column", "a cell", "what the cells are"),
    ),
    Figure: (Figure(plot=PLOT), ("what it shows",)),
    Preformatted: (Preformatted(text="a command"), ("a command",)),
    Details: (Details(summary="more of it", blocks=(Text(text="below"),)), ("more of it", "below")),
    Choice: (
        Choice(forms=((Text(text="wide"), Text(text="below it")), (Text(text="narrow"),))),
        ("wide", "below it"),
    ),
    Finding: (Finding(severity="warning", headline="warning: it", blocks=(Text(text="why"),)), ("warning: it", "why")),
}
# What a format with markup may not pass on from a text, by format; a raw escape sequence is none's.
MARKUP = {"html": "<b>", "markdown": "<b>"}
ODD = "\x1b[31m<b>"
NO_TEXT = {"tone", "severity", "anchor", "shape", "svg"}


def odd(value: Any, field: str = "") -> Any:
    """A block or a report with an escape sequence and markup in each of its texts."""
    if is_dataclass(value) and not isinstance(value, type):
        changed = {one.name: odd(getattr(value, one.name), one.name) for one in fields(value)}
        return replace(value, **changed)
    if isinstance(value, tuple):
        return tuple(odd(one, field) for one in value)
    return value + ODD if isinstance(value, str) and value and field not in NO_TEXT else value


def shown(name: str, made: Report, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(table.BUILDERS, "Sample", table.Builders(whole="sample:made"))
    monkeypatch.setattr(table, "_made", lambda *_: made)
    return FORMATS[name].render(Sample())


REPORT = Report(
    name="its name",
    title="a window",
    verdict="unstable",
    reason="its reason",
    lead="its lead",
    when="its date",
    blocks=(),
    footer=("how it was made", "what GB is"),
)
OF_REPORT = ("its name", "unstable", "its reason", "its lead", "its date", "how it was made", "what GB is")


class Sample:
    """A document of no kind that there is."""

    def to_json(self) -> dict[str, str]:
        return {"sample": "a value"}


@pytest.mark.parametrize("path", [*RESULTS, *REPORTS], ids=lambda path: path.stem)
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_document_is_shown_in_every_format(name: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "has_matplotlib", lambda: False)  # plots have tests of their own
    text = FORMATS[name].render(raybench.load(path))
    assert len(text) > 40
    assert text.endswith("\n") or name == "html"


@pytest.mark.parametrize(("kind", "draws"), [("preflight", False), ("cluster", False), ("fabric", True)])
def test_a_page_without_figures_waits_for_no_matplotlib(
    kind: str, draws: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing it is half a second, more than the rest of such a page."""
    has_matplotlib = Mock(return_value=False)
    monkeypatch.setattr(asked, "has_matplotlib", has_matplotlib)
    path = next(one for one in REPORTS if one.name.startswith(f"{kind}-"))
    FORMATS["html"].render(raybench.load(path))
    assert has_matplotlib.called is draws


def test_every_kind_that_is_loaded_has_a_builder_and_no_other_has() -> None:
    assert set(table.BUILDERS) == {kind.name for kind in KINDS.values()}
    for builders in table.BUILDERS.values():
        for builder in filter(None, (builders.whole, builders.terminal, builders.screen)):
            module, _, function = builder.partition(":")
            assert callable(getattr(importlib.import_module(f"raybench.reports.builders.{module}"), function))


def test_every_block_is_listed_once() -> None:
    blocks = {value for value in vars(importlib.import_module("raybench.reports.model")).values() if _is_block(value)}
    assert set(BLOCKS) == blocks == set(BLOCK_OF)
    assert len({block.KIND for block in BLOCKS}) == len(BLOCKS)


def _is_block(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "KIND")


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", sorted(set(FORMATS) - set(NO_BLOCKS)))
def test_every_format_shows_every_block(name: str, kind: type[Block], monkeypatch: pytest.MonkeyPatch) -> None:
    block, texts = BLOCK_OF[kind]
    text = shown(name, replace(REPORT, blocks=(block,)), monkeypatch)
    for wanted in (*texts, *OF_REPORT):
        assert wanted in text, f"{name}: {wanted!r} of {kind.__name__} or Report (reports/model.py) is not shown"


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", sorted(set(FORMATS) - set(NO_BLOCKS)))
def test_no_text_reaches_a_reader_as_markup(name: str, kind: type[Block], monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(name, odd(replace(REPORT, blocks=(BLOCK_OF[kind][0],))), monkeypatch)
    assert "\x1b" not in text, f"{name}: pass every text through printable of raybench/reports/text.py"
    if name in MARKUP and (name, kind) != ("markdown", Preformatted):  # there it is code
        assert MARKUP[name] not in text.partition("<body")[2 if name == "html" else 0], f"{name}: escape its markup"


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
def test_the_terminal_shows_every_block(kind: type[Block]) -> None:
    block, texts = BLOCK_OF[kind]
    stream = io.StringIO()
    print_report(replace(REPORT, verdict="ok", blocks=(block,)), stream, width=80)
    for wanted in (*texts, *set(OF_REPORT) - {"unstable"}):
        assert wanted in stream.getvalue(), f"{wanted!r} of {kind.__name__} or Report is not shown"
    assert stream.getvalue().count("VERDICT: OK: its reason") == 2


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
def test_no_text_reaches_a_terminal_as_a_command(kind: type[Block]) -> None:
    stream = io.StringIO()
    print_report(odd(replace(REPORT, verdict="ok", blocks=(BLOCK_OF[kind][0],))), stream, width=300)
    assert "\x1b" not in stream.getvalue()
    assert ODD.replace("\x1b", "\\x1b") in stream.getvalue()


def test_a_module_that_renders_is_a_line_of_the_table() -> None:
    found = {
        (f"raybench.reports.{path.stem}", node.name)
        for path in PACKAGE.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("render_")
    }
    listed = {(one.module, one.function) for one in FORMATS.values()}
    assert found - listed == set(), "add its line to FORMATS in raybench/reports/formats.py"
    assert listed - found == set(), "FORMATS in raybench/reports/formats.py names a renderer that is not there"


def test_the_command_takes_its_formats_from_the_table() -> None:
    (option,) = (one for one in show.command.params if one.name == "output_format")
    assert list(option.type.choices) == ["text", *FORMATS]
    assert all(one.help in str(getattr(option, "help", "")) for one in FORMATS.values())


def test_a_report_of_names_and_figures_has_all_of_them() -> None:
    path = next(one for one in REPORTS if one.stem.startswith("estimate"))
    report = table.report_of(raybench.load(path), Asked())
    names = {name for block in report.blocks if isinstance(block, Facts) for name, _ in block.pairs}
    content = json.loads(path.read_text())
    assert {"world_size", "strategy", "wire_bytes_per_rank", "peak"} <= names
    assert set(content["memory"]) <= names


def test_a_column_of_sentences_is_broken_and_one_of_figures_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be done, in the last column of a table of figures, would else be moved sideways to be read."""
    figure, sentence = (
        "12.34 ms [11.98 ms, 12.71 ms] (5 of 5)",
        "a larger batch or --dtype bf16 may help: compute limits it",
    )
    cells = tuple(Cell(text=text) for text in ("ddp tiny", figure, sentence))
    grid = Grid(headings=("of", "figure", "to do"), rows=(cells,))
    page = shown("html", replace(REPORT, blocks=(Table(grid=grid),)), monkeypatch)
    wraps = [f">{cell.text}</td>" in page and f' text">{cell.text}</td>' in page for cell in cells]
    assert wraps == [True, False, True]
    assert '<th scope="col" class="text">to do</th>' in page
