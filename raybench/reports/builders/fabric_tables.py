"""A fabric test for a terminal: a matrix a rail, what is at fault, hosts with problems. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from raybench.documents.fabric import FabricHost, FabricProblem, FabricRail, FabricReport, FabricSuspect, FabricTest
from raybench.host_ranges import folded
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Banner, Block, Cell, Choice, Grid, Heading, Note, Notes, Report, Table, Text
from raybench.reports.text import count_of

Matrix = Mapping[tuple[str, str], FabricTest]
_ANY_HOST = "\0"
_SHOWN = 20
_WORST_PAIRS = 5
_WIDEST = 250  # hosts beside each other: no terminal has room for more
_EMULATED = "EMULATED devices: compare these figures with each other only"
_TOO_MANY = "too many hosts for this width; see the heatmap of the report. Furthest from typical:"


def fabric_tables(report: FabricReport, _: Asked) -> Report:
    """The report."""
    rounds = report.rounds
    tested = sum(bool(host.ports) for host in report.hosts)
    confirm = f" and {rounds.confirm} to find the cause" if rounds.confirm else ""
    name = f"raybench fabric {report.run_id}: {report.tool} between {count_of(tested, 'host')}"
    name += f", scope {report.scope}, {count_of(rounds.scan, 'round')}{confirm}"
    return Report(
        name=name,
        title=name,
        verdict=report.conclusion.verdict,
        reason=report.conclusion.reason,
        lead="",
        when="",
        blocks=(*_above(report), *_rails(report), *_suspects(report.suspects), *_problems(tuple(report.problems))),
    )


def _above(report: FabricReport) -> Iterator[Block]:
    if report.emulated:
        yield Banner(text=_EMULATED, tone="emulated")
    yield from (Banner(text=note, tone="warn") for note in report.notes)


def _rails(report: FabricReport) -> Iterator[Block]:
    for rail in report.rails:
        devices = ", ".join(rail.devices[:4])
        yield Heading(text=f"rail {rail.name} ({devices}), {report.unit}, row sends to column", level=3)
        yield Choice(forms=tuple(_forms(report.matrix(rail.name), report.hosts_of(rail.name))))
        yield from _extremes(rail, report.unit)


def _extremes(rail: FabricRail, unit: str) -> Iterator[Block]:
    if rail.least is not None and rail.most is not None:
        counts = "".join(f", {count} {name}" for count, name in ((rail.slow, "slow"), (rail.failed, "failed")) if count)
        yield Text(text=f"{count_of(rail.tests, 'test')}: least {rail.least:.4g}, most {rail.most:.4g} {unit}{counts}")


def _forms(matrix: Matrix, hosts: Sequence[str]) -> Iterator[tuple[Block, ...]]:
    """The matrix with names, with numbers where names are too wide, or the worst pairs where numbers are as well."""
    if len(hosts) <= _WIDEST:
        yield (_table(matrix, hosts, hosts),)
        names = ", ".join(f"h{number} {host}" for number, host in enumerate(hosts))
        numbers = [f"h{number}" for number in range(len(hosts))]
        yield _table(matrix, hosts, numbers), Text(text=names, tone="soft")
    worst = sorted((test for test in matrix.values() if test.value), key=lambda test: test.share)[:_WORST_PAIRS]
    pairs = (Note(text=f"  {' to '.join(test.path)}: {test.seen}", tone=_cell(test).tone) for test in worst)
    yield Text(text=_TOO_MANY), Notes(items=tuple(pairs))


def _table(matrix: Matrix, hosts: Sequence[str], names: Sequence[str]) -> Table:
    rows = (
        (Cell(text=name, tone="strong"), *(_cell(matrix.get((source, other))) for other in hosts))
        for source, name in zip(hosts, names, strict=True)
    )
    return Table(grid=Grid(headings=("", *names), rows=tuple(rows)), text_columns=0)


def _cell(test: FabricTest | None) -> Cell:
    if test is None:
        return Cell(text=".", tone="soft")
    return Cell(text=figure_text(test.value), tone="" if test.verdict == "pass" else test.verdict)


def figure_text(value: float | None) -> str:
    """A figure in at most five characters; ``x`` for a test that failed."""
    if value is None:
        return "x"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.1 else f"{value:.2g}"


def _suspects(suspects: Sequence[FabricSuspect]) -> Iterator[Block]:
    for one in suspects[:_SHOWN]:
        items = (
            Note(text=f"{one.rank}. {one.verdict}: {one.summary}", tone=one.verdict),
            Note(text=f"   rail {', '.join(one.rails)}; seen {one.seen}"),
            Note(text=f"   expected {one.expected}; {one.basis}", tone="soft"),
            Note(text=f"   {one.advice}"),
        )
        yield Notes(items=items, apart=True)
    if len(suspects) > _SHOWN:
        yield Text(text=f"and {count_of(len(suspects) - _SHOWN, 'more suspect')}: see the report")


def _problems(problems: Sequence[tuple[FabricHost, FabricProblem]]) -> Iterator[Block]:
    """Each problem once with the hosts that have it, whose names its advice may hold."""
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for host, problem in problems:
        key = (problem.verdict, problem.seen, problem.advice.replace(host.name, _ANY_HOST))
        groups.setdefault(key, []).append((host.name, problem.advice))
    items: list[Note] = []
    for (verdict, seen, general), ones in islice(groups.items(), _SHOWN):
        names = [name for name, _ in ones]
        which = f"host {names[0]}" if len(names) == 1 else f"{len(names)} hosts ({folded(names)})"
        advice = ones[0][1] if len(names) == 1 else general.replace(_ANY_HOST, "HOST")
        items += [Note(text=f"{verdict}: {which}: {seen}", tone=verdict), Note(text=f"   {advice}")]
    if len(groups) > _SHOWN:
        items.append(Note(text=f"and {count_of(len(groups) - _SHOWN, 'more problem')}: see the report"))
    yield from (Notes(items=tuple(items), apart=True),) if items else ()
