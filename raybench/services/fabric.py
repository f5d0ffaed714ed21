"""The network between hosts: what a test of it takes, and the test, measured, judged and kept."""

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
    from raybench.hosts.fabric import Progress

CHOICES: Mapping[str, Sequence[str]] = {"scope": SCOPES, "tool": TOOLS, "gpu_memory": GPU_MEMORY}
DEFAULTS = FabricSettings()


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
