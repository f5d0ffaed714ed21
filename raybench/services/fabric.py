"""The network between hosts: what a test of it takes, the test, measured, judged and kept, and what its tools say."""

import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.documents.fabric import FabricReport
from raybench.documents.fabric_plan import FabricPlan
from raybench.errors import UsageError
from raybench.preflight.fabric.rounds import SCOPES
from raybench.preflight.fabric.settings import GPU_MEMORY, TOOLS, FabricSettings, settings_from
from raybench.run_folder import make_output_folder, new_run_id
from raybench.whole_file import write_whole

if TYPE_CHECKING:
    from raybench.documents.fabric_ports import FabricPorts, PortsFile
    from raybench.hosts.fabric import Progress
    from raybench.preflight.subnet.judgement import ToldFile

CHOICES: Mapping[str, Sequence[str]] = {"scope": SCOPES, "tool": TOOLS, "gpu_memory": GPU_MEMORY}
DEFAULTS = FabricSettings()
_MOST_BYTES = 256 * 2**20
_MOST_FILES = 1000
_MOST_FINDINGS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricOptions:
    """Between which hosts, and how. ``settings`` are those of the role, without ``fabric_``; None: its default."""

    inventory: Sequence[str | Path]
    group: str = "all"
    limit: str | None = None
    forks: int | None = None
    output_dir: str = "runs"
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedFabric:
    """What was measured and judged. ``files`` of the run by what they are; ``kept`` is false without fabric.json."""

    report: FabricReport
    files: tuple[tuple[str, Path], ...]
    kept: bool
    remarks: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """That of the command: never 0 where the report could not be kept."""
        return self.report.conclusion.exit_code or (0 if self.kept else 3)


def plan(options: Mapping[str, Any]) -> FabricPlan:
    """Rounds and time of a fabric, as ``raybench.preflight.fabric.forecast`` takes ``options``; None: its default."""
    from raybench.preflight.fabric.forecast import forecast

    return forecast(**{name: value for name, value in options.items() if value is not None})


def measure_fabric(
    options: FabricOptions,
    *,
    begun: Callable[[int], None] = lambda _: None,
    on_progress: "Callable[[Progress], None]" = lambda _: None,
) -> FinishedFabric:
    """Measure between the hosts, and keep ``fabric.json`` and ``report.html``. No host is changed.

    ``begun`` is called with the number of hosts before any is contacted. Raises UsageError, before that, for settings
    that cannot be and for fewer than two hosts; IncompleteRunError for a test that was stopped or gave no report.
    """
    from raybench.hosts.fabric import run_fabric
    from raybench.hosts.inventory import read_inventory

    given = {name: value for name, value in options.settings.items() if value is not None}
    settings_from(given)
    hosts = read_inventory(options.inventory, limit=options.limit, group=options.group)
    if len(hosts.hosts) < 2:
        raise UsageError(f"a fabric test needs at least two hosts; the inventory leaves {len(hosts.hosts)}")
    run_id = new_run_id()
    folder = Path(options.output_dir, run_id)
    make_output_folder(folder)
    begun(len(hosts.hosts))
    report = run_fabric(
        hosts,
        given,
        run_id=run_id,
        group=options.group,
        limit=options.limit,
        forks=options.forks,
        on_progress=on_progress,
    )
    return keep(report, folder)


def keep(report: FabricReport, folder: Path) -> FinishedFabric:
    """Write the report and its page; what could not be written is a remark."""
    import json

    files, remarks = list[tuple[str, Path]](), list[str]()
    try:
        write_whole(folder / "fabric.json", json.dumps(report.to_json(), indent=1))
        files.append(("report", folder / "fabric.json"))
    except OSError as error:
        remarks.append(f"{folder / 'fabric.json'} could not be written ({error.strerror}): the report is printed here")
    kept, trouble = not remarks, _draw(report, folder / "report.html")
    if trouble:
        remarks.append(trouble)
    else:
        files.append(("page", folder / "report.html"))
    return FinishedFabric(report=report, files=tuple(files), kept=kept, remarks=tuple(remarks))


def _draw(report: FabricReport, path: Path) -> str:
    """Write the page; why not where it cannot be."""
    from raybench.errors import MissingLibraryError

    try:
        from raybench.reports.html import write_html

        write_html(report, path)
    except MissingLibraryError as error:
        return str(error)
    except OSError as error:
        return f"{path} could not be written ({error.strerror})"
    return ""


def import_fabric(paths: Sequence[Path]) -> "FabricPorts":
    """Read the files, and those of folders, and judge the ports that they tell of.

    Raises UsageError where a file cannot be read, is too large, or none is of a known format.
    """
    from raybench.documents.fabric_ports import FabricPorts
    from raybench.preflight.subnet.facts import ASPECTS
    from raybench.preflight.subnet.formats import FORMATS
    from raybench.preflight.subnet.judgement import judge, port_count

    read = [_read(path) for path in _files(paths)]
    told = [one for one, _ in read if one is not None]
    if not told:
        titles = ", ".join(one.title for one in FORMATS)
        names = ", ".join(str(path) for path in paths[:4])
        raise UsageError(f"nothing in {names} is a file that can be read here: {titles}")
    findings = judge(told)
    ports, nodes = port_count(told)
    covered = {aspect for one in told for aspect in one.told.covers}
    return FabricPorts(
        files=tuple(file for _, file in read),
        nodes=nodes,
        ports=ports,
        judged=tuple(one for one in ASPECTS if one in covered),
        not_judged=tuple(one for one in ASPECTS if one not in covered),
        findings=findings[:_MOST_FINDINGS],
        more_findings=max(0, len(findings) - _MOST_FINDINGS),
    )


def _files(paths: Sequence[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        own = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
        found += [one for one in own if one not in found]
    if len(found) > _MOST_FILES:
        raise UsageError(f"these are {len(found)} files; give {_MOST_FILES} at most in one call")
    return found


def _read(path: Path) -> "tuple[ToldFile | None, PortsFile]":
    from raybench.documents.fabric_ports import PortsFile
    from raybench.preflight.subnet.facts import ASPECTS
    from raybench.preflight.subnet.formats import format_of
    from raybench.preflight.subnet.judgement import ToldFile

    text = _text(path)
    known = format_of(text)
    if known is None:
        return None, PortsFile(name=str(path), format="")
    told = known.parse(text)
    covers = tuple(one for one in ASPECTS if one in told.covers)
    file = PortsFile(
        name=str(path), format=known.title, ports=len(told.ports), complaints=len(told.complaints), covers=covers
    )
    return ToldFile(name=str(path), told=told, lines=text.splitlines()), file


def _text(path: Path) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{path} is not a file")
        if found.st_size > _MOST_BYTES:
            raise UsageError(f"{path} has more than {_MOST_BYTES // 2**20} MiB, which no such file of a fabric has")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
