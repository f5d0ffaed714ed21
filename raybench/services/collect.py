"""Logs and facts of hosts, fetched into one run's folder, and what the logs prove."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.errors import UsageError
from raybench.run_folder import new_run_id
from raybench.units import parse_amount
from raybench.whole_file import write_whole

if TYPE_CHECKING:
    from diagnostics.findings import Diagnosis
    from raybench.documents.collection import CollectedHost, CollectionReport
    from raybench.hosts.collect_host import HostReport
    from raybench.processes.interrupt import Interrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """What is fetched from which hosts. No ``paths``: where logs mostly are. No ``run_id``: a new folder.

    ``file_limit`` and ``host_limit`` are sizes as text; ``timeout_seconds`` is the time of one host.
    """

    inventory: Sequence[str | Path]
    limit: str | None = None
    paths: Sequence[str] = ()
    run_id: str | None = None
    output_dir: str = "runs"
    file_limit: str = "16M"
    host_limit: str = "512M"
    accept_new: bool = False
    ssh_config: Path | None = None
    forks: int = 16
    timeout_seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCollection:
    """What was fetched, and what its logs prove; None where there are none. ``remarks`` say what could not be kept."""

    report: "CollectionReport"
    diagnosis: "Diagnosis | None"
    remarks: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return self.report.exit_code


def collect(
    options: CollectOptions, *, interrupt: "Interrupt", on_host: "Callable[[CollectedHost], None]" = lambda _: None
) -> FinishedCollection:
    """Fetch from all hosts, and diagnose. ``interrupt`` is installed by the caller; the first signal ends transfers.

    ``on_host`` is called with each host when it is done. Raises UsageError, before any is contacted, for options that
    cannot be.
    """
    from raybench.hosts.collect import DEFAULT_PATTERNS, CollectPlan
    from raybench.hosts.collect import collect as collect_from
    from raybench.hosts.inventory import read_inventory

    _check_patterns(options.paths)
    limits = [
        parse_amount("--file-limit", options.file_limit, "4K"),
        parse_amount("--host-limit", options.host_limit, "4K"),
    ]
    inventory = read_inventory(options.inventory, limit=options.limit)
    plan = CollectPlan(
        folder=_folder(options.output_dir, options.run_id),
        patterns=tuple(options.paths) or DEFAULT_PATTERNS,
        file_limit_bytes=limits[0],
        host_limit_bytes=limits[1],
        seconds=options.timeout_seconds,
        ssh_config=options.ssh_config,
        accept_new=options.accept_new,
    )
    with interrupt.deferred():
        reports = collect_from(
            inventory.hosts,
            plan,
            workers=options.forks,
            stop=interrupt.event,
            on_host=lambda one: on_host(one.collected()),
        )
    return _finished(reports, plan.folder, named_paths=bool(options.paths))


def _check_patterns(patterns: Sequence[str]) -> None:
    for pattern in patterns:
        if not pattern.startswith("/") or "\0" in pattern:
            raise UsageError(f"--path {pattern!r} is not an absolute path on the hosts, such as '/scratch/job7/nccl.*'")


def _folder(output_dir: str, run_id: str | None) -> Path:
    """The run's folder. Raises UsageError for a run that is not there, and where no folder can be made."""
    if run_id is not None and not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", run_id):
        raise UsageError(f"--run {run_id!r} is not the name of a run, such as 20261121-014502-3f9a")
    folder = Path(output_dir, run_id or new_run_id())
    if run_id is not None and not folder.is_dir():
        raise UsageError(f"there is no run {run_id} in {output_dir}; see --output-dir, or leave --run out")
    try:
        (folder / "hosts").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}; choose another with --output-dir") from error
    return folder


def _finished(reports: "Sequence[HostReport]", folder: Path, *, named_paths: bool) -> FinishedCollection:
    from raybench.documents.collection import CollectionReport

    remarks: list[str] = []
    diagnosis = _diagnosed(folder, remarks)
    collection = CollectionReport(
        folder=str(folder / "hosts"),
        hosts=tuple(report.collected() for report in reports),
        diagnosis=diagnosis,
        named_paths=named_paths,
    )
    _write(folder / "hosts" / "collection.json", collection.to_json(), remarks)
    if diagnosis:
        _write(folder / "hosts" / "diagnosis.json", diagnosis.to_json(), remarks)
    return FinishedCollection(report=collection, diagnosis=diagnosis, remarks=tuple(remarks))


def _diagnosed(folder: Path, remarks: list[str]) -> "Diagnosis | None":
    from diagnostics.engine import diagnose_paths
    from diagnostics.errors import UnreadableInputError

    found = sorted(path for path in (folder / "hosts").glob("*/files") if any(path.rglob("*")))
    try:
        return diagnose_paths([str(path) for path in found]) if found else None
    except UnreadableInputError as error:
        remarks.append(f"the logs could not be diagnosed: {error}")
        return None


def _write(path: Path, content: Any, remarks: list[str]) -> None:
    import msgspec

    try:
        write_whole(path, msgspec.json.format(msgspec.json.encode(content), indent=2))
    except OSError as error:
        remarks.append(f"{path} could not be written ({error.strerror})")
