"""A fabric test on a terminal: hosts, a matrix a rail, what is at fault."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.text import Text

from raybench.documents.fabric import FabricHost, FabricProblem, FabricRail, FabricReport, FabricSuspect, FabricTest
from raybench.host_ranges import folded
from raybench.reports.columns import Column, Line, lines, total_width
from raybench.reports.terminal.result import LEAST_WIDTH, PIPE_WIDTH, comment, verdict_lines
from raybench.reports.text import count_of, printable

_ANY_HOST = "\0"
_STYLE = {"pass": "bold green", "warn": "bold yellow", "fail": "bold red", "error": "bold magenta"}
Matrix = Mapping[tuple[str, str], FabricTest]
_SHOWN = 20
_WORST_PAIRS = 5


def print_fabric(
    report: FabricReport, stream: IO[str], *, files: Sequence[tuple[str, Path]] = (), width: int | None = None
) -> None:
    """Print the report; ``files`` are (what it is, where it lies). ``width`` in columns is for tests."""
    console = Console(file=stream, highlight=False, markup=False, emoji=False, force_jupyter=False)
    wanted = width or (console.width if console.is_terminal or "COLUMNS" in os.environ else PIPE_WIDTH)
    columns = max(wanted, LEAST_WIDTH)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    for line in (*fabric_lines(report, columns), *_files(files), *verdict_lines(report.conclusion, columns)):
        text = Text(no_wrap=True, overflow="ignore")
        for segment, style in line:
            text.append(segment.encode(encoding, "backslashreplace").decode(encoding), style)
        console.print(text, soft_wrap=True)


def fabric_lines(report: FabricReport, width: int) -> Iterator[Line]:
    """Everything that is printed but the files, as lines of (text, style) segments."""
    rounds = report.rounds
    tested = sum(bool(host.ports) for host in report.hosts)
    yield from verdict_lines(report.conclusion, width)
    title = f"raybench fabric {printable(report.run_id)}: {printable(report.tool)} between {count_of(tested, 'host')}"
    confirm = f" and {rounds.confirm} to find the cause" if rounds.confirm else ""
    scope = f"scope {printable(report.scope)}, {count_of(rounds.scan, 'round')}{confirm}"
    yield from comment(f"{title}, {scope}", width, "bold")
    if report.emulated:
        yield from comment("EMULATED devices: compare these figures with each other only", width, "black on yellow")
    for note in report.notes:
        yield from comment(printable(note), width, "yellow")
    for rail in report.rails:
        yield (("#", ""),)
        yield from _rail_lines(report, rail, width)
    yield from _suspects(report.suspects, width)
    yield from _problems(tuple(report.problems), width)
    yield (("#", ""),)


def _rail_lines(report: FabricReport, rail: FabricRail, width: int) -> Iterator[Line]:
    devices = ", ".join(map(printable, rail.devices[:4]))
    yield from comment(
        f"rail {printable(rail.name)} ({devices}), {report.unit}, row sends to column", width, "bold cyan"
    )
    yield from _grid(report.matrix(rail.name), report.hosts_of(rail.name), width)
    if rail.least is not None and rail.most is not None:
        figures = f"least {rail.least:.4g}, most {rail.most:.4g} {report.unit}"
        counts = "".join(f", {count} {name}" for count, name in ((rail.slow, "slow"), (rail.failed, "failed")) if count)
        yield from comment(f"{count_of(rail.tests, 'test')}: {figures}{counts}", width)


def _grid(matrix: Matrix, hosts: Sequence[str], width: int) -> Iterator[Line]:
    """The matrix with names, with numbers where names are too wide, or the worst pairs where numbers are as well."""
    for heads in ([printable(host) for host in hosts], [f"h{number}" for number in range(len(hosts))]):
        columns = _columns(matrix, hosts, heads)
        for gap in (2, 1):
            if total_width(columns, gap) <= width:
                yield from lines(columns, gap)
                if heads[:1] == ["h0"] and hosts[:1] != ["h0"]:
                    names = ", ".join(f"h{number} {printable(host)}" for number, host in enumerate(hosts))
                    yield from comment(names, width, "dim")
                return
    worst = sorted((test for test in matrix.values() if test.value), key=lambda test: test.share)[:_WORST_PAIRS]
    yield from comment("too many hosts for this width; see the heatmap of the report. Furthest from typical:", width)
    for test in worst:
        yield from comment(f"  {_pair_text(test)}: {printable(test.seen)}", width, _cell(test)[1])


def _columns(matrix: Matrix, hosts: Sequence[str], heads: Sequence[str]) -> tuple[Column, ...]:
    side = Column(heading="", cells=tuple((head, "bold") for head in heads))
    cells = [[_cell(matrix.get((source, other))) for source in hosts] for other in hosts]
    return (side, *(Column(heading=head, cells=tuple(column)) for head, column in zip(heads, cells, strict=True)))


def _cell(test: FabricTest | None) -> tuple[str, str]:
    if test is None:
        return ".", "dim"
    text = figure_text(test.value)
    return text, "" if test.verdict == "pass" else _STYLE[test.verdict]


def figure_text(value: float | None) -> str:
    """A figure in at most five characters; ``x`` for a test that failed."""
    if value is None:
        return "x"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.1 else f"{value:.2g}"


def _pair_text(test: FabricTest) -> str:
    return " to ".join(map(printable, test.path))


def _suspects(suspects: Sequence[FabricSuspect], width: int) -> Iterator[Line]:
    for one in suspects[:_SHOWN]:
        yield (("#", ""),)
        yield from comment(f"{one.rank}. {one.verdict}: {printable(one.summary)}", width, _STYLE[one.verdict])
        yield from comment(f"   rail {printable(', '.join(one.rails))}; seen {printable(one.seen)}", width)
        yield from comment(f"   expected {printable(one.expected)}; {printable(one.basis)}", width, "dim")
        yield from comment(f"   {printable(one.advice)}", width)
    if len(suspects) > _SHOWN:
        yield from comment(f"and {count_of(len(suspects) - _SHOWN, 'more suspect')}: see the report", width)


def _problems(problems: Sequence[tuple[FabricHost, FabricProblem]], width: int) -> Iterator[Line]:
    """Each problem once with the hosts that have it, whose names its advice may hold."""
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for host, problem in problems:
        key = (problem.verdict, problem.seen, problem.advice.replace(host.name, _ANY_HOST))
        groups.setdefault(key, []).append((host.name, problem.advice))
    if groups:
        yield (("#", ""),)
    for (verdict, seen, general), ones in islice(groups.items(), _SHOWN):
        names = [name for name, _ in ones]
        which = f"host {names[0]}" if len(names) == 1 else f"{len(names)} hosts ({folded(names)})"
        advice = ones[0][1] if len(names) == 1 else general.replace(_ANY_HOST, "HOST")
        yield from comment(f"{verdict}: {printable(which)}: {printable(seen)}", width, _STYLE[verdict])
        yield from comment(f"   {printable(advice)}", width)
    if len(groups) > _SHOWN:
        yield from comment(f"and {count_of(len(groups) - _SHOWN, 'more problem')}: see the report", width)


def _files(files: Sequence[tuple[str, Path]]) -> Iterator[Line]:
    for label, path in files:
        yield (("# ", "dim"), (f"{label}: ", ""), (printable(path), "bold"))
