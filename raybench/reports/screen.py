"""What a run or a study says on one screen: the verdict, one row a benchmark, what stands out, where the rest lies.

The long tables are in the files, and on the terminal with ``--full``. The verdict is the first line and the last.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO

from raybench.documents.run.result import RunResult
from raybench.reports.columns import Line
from raybench.reports.findings import gravest_first, headline, next_steps
from raybench.reports.rows import (
    cluster_line,
    dropped_lines,
    is_unstable,
    tables,
    unmeasured,
)
from raybench.reports.terminal.result import comment, print_lines, verdict_lines
from raybench.reports.text import count_of, printable
from raybench.reports.workloads.display import Row
from raybench.reports.workloads.table import workload_rows
from raybench.units import format_seconds
from raybench.verdicts import Conclusion

_SCREEN = 23  # lines of a terminal, less the prompt
_LEAST_ROWS = 4
_SEVERITY_STYLE = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def print_screen(
    result: RunResult,
    stream: IO[str],
    *,
    place: Path,
    notes: Sequence[str] = (),
    width: int | None = None,
) -> None:
    """Print a run on one screen; ``place``: its report, or its folder. ``width`` in columns is for tests."""
    print_lines(lambda columns: run_screen(result, columns, place=place, notes=notes), stream, width)


def run_screen(result: RunResult, width: int, *, place: Path, notes: Sequence[str] = ()) -> Iterator[Line]:
    """The lines of a run."""
    elapsed = result.total_seconds
    took = f", {format_seconds(elapsed)}" if elapsed else ""
    title = f"raybench run {printable(result.run_id)}: {cluster_line(result.cluster)}{took}"
    emulated = f"!! EMULATED: {count_of(len(result.cluster.nodes), 'node')} on one machine: no figures of a network"
    above: list[tuple[str, str]] = [(emulated, "black on yellow")] if result.cluster.emulated else []
    above += [(line, "yellow") for line in islice(dropped_lines(result.cluster), 2)]
    below = [*_findings(result, width), *((note, "dim") for note in (*_unstable(result), *notes))]
    yield from _screen(result.conclusion, title, above, [*_rows(result)], below, place, width)


def document_screen(
    conclusion: Conclusion, title: str, rows: Sequence[Row], notes: Sequence[str], place: Path, width: int
) -> Iterator[Line]:
    """The same for any other document, such as a study."""
    yield from _screen(conclusion, title, (), rows, [(note, "yellow") for note in notes], place, width)


def _screen(  # noqa: PLR0913, PLR0917 - the parts of a screen, from above
    conclusion: Conclusion,
    title: str,
    above: Sequence[tuple[str, str]],
    rows: Sequence[Row],
    below: Sequence[tuple[str, str]],
    place: Path,
    width: int,
) -> Iterator[Line]:
    """As many rows as are left of the screen; the verdict first and last."""
    short = replace(conclusion, reason=_cut(conclusion.reason, 2 * max(width, 60) - 30))
    verdict = [*verdict_lines(short, width)]
    head = [*verdict, *comment(_cut(title, 2 * width - 8), width, "bold")]
    head += [line for text, style in above for line in comment(_cut(text, width - 2), width, style)]
    tail = [line for text, style in below for line in comment(_cut(text, 2 * width - 8), width, style)]
    tail = tail[: _SCREEN - len(head) - len(verdict) - 1 - _LEAST_ROWS]
    yield from head
    yield from _row_lines(rows, width, _SCREEN - len(head) - len(tail) - len(verdict) - 1)
    yield from tail
    yield place_line(place)
    yield from verdict


def place_line(place: Path) -> Line:
    """Where everything is. A path is to be copied, so it is never wrapped."""
    return (("# ", "dim"), ("report: ", ""), (printable(place), "bold"), (" (every table: --full)", "dim"))


def _row_lines(rows: Sequence[Row], width: int, most: int) -> Iterator[Line]:
    """One line a row, no more than ``most`` in all; what does not fit the width is cut, the remark first."""
    shown = rows if len(rows) <= most else rows[: most - 1]
    first = min(max((len(row[0]) for row in shown), default=0), width // 2)
    second = max((len(row[1]) for row in shown), default=0)
    for what, figures, remark in shown:
        text = f"{_cut(what, first):<{first}}  {figures:<{second}}  {remark}".rstrip()
        yield (("  ", ""), (_cut(text, width - 2), ""))
    if len(shown) < len(rows):
        yield from comment(f"and {len(rows) - len(shown)} more rows: --full, or the report", width, "dim")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 3, 0)]}..."


def _rows(result: RunResult) -> Iterator[Row]:
    yield from workload_rows(result)
    for one in unmeasured(result):
        what = one.names[0] if len(one.names) == 1 else f"{len(one.names)} benchmarks"
        yield what, one.word, one.reason if len(one.names) == 1 else f"{one.reason}: {', '.join(one.names)}"


def _findings(result: RunResult, width: int) -> Iterator[tuple[str, str]]:
    """What to do about the first finding, which the verdict names, and the next one."""
    found = [one for one in gravest_first(result, result.log_findings) if one.severity != "info"]
    for step in islice((step for one in found[:1] for step in next_steps(one)), 1):
        yield _cut(f"next: {step}", width - 2), ""
    for finding in found[1:2]:
        yield _cut(headline(finding), width - 2), _SEVERITY_STYLE[finding.severity]
    if len(found) > 2:
        yield f"and {count_of(len(found) - 2, 'more finding')}: --full, or the report", "yellow"


def _unstable(result: RunResult) -> Iterable[str]:
    """Instability, once."""
    points = [point for table in tables(result.benchmarks) for point in table.points]
    unstable = sum(map(is_unstable, points))
    if unstable:
        return (f"~ {unstable} of {len(points)} points unstable: other jobs? More --iters or --repeats.",)
    return ()
