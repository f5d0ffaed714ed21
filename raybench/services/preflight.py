"""Hosts checked before anything is measured on them: probed, judged, and what is kept of it."""

import contextlib
import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.run_folder import make_output_folder, new_run_id

if TYPE_CHECKING:
    from raybench.documents.preflight import CheckResult, PreflightReport
    from raybench.hosts.inventory import Inventory
    from raybench.preflight.report import Gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightOptions:
    """Which hosts are probed, and what is looked at. Without an inventory it is this machine.

    ``only`` and ``skip`` are checks or concerns (``host-memlock``, ``gpu``). ``expect`` is NAME=VALUE of variables of
    the role. None leaves forks and the time limit of a host to the inventory (50, and 60 s).

    ``level`` 2 tests each node for about a minute, 3 for up to ten; ``test_sizes`` are for small machines. ``history``
    is a file that keeps since when each node is in its state.
    """

    inventories: Sequence[str | Path] = ()
    limit: str | None = None
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    expect: Sequence[str] = ()
    output_dir: str = "runs"
    forks: int | None = None
    timeout_seconds: float = 600.0
    host_timeout_seconds: float | None = None
    level: int = 1
    history: Path | None = None
    test_sizes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPreflight:
    """What was seen and judged. ``files`` that hold it by what they are; ``remarks`` say what could not be made."""

    report: "PreflightReport"
    files: tuple[tuple[str, Path], ...]
    remarks: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return self.report.exit_code


def preflight(
    options: PreflightOptions,
    *,
    begun: Callable[[Sequence[str]], None] = lambda _: None,
    on_host: "Callable[[str, Sequence[CheckResult]], None]" = lambda _, __: None,
    on_tested: Callable[[str], None] = lambda _: None,
) -> FinishedPreflight:
    """Probe and judge the hosts, and keep the report. Nothing is changed on them.

    ``begun`` is called with the hosts' names before any is contacted, ``on_host`` with a host's own checks as soon as
    it has answered, ``on_tested`` with a host's name once its active tests are over. Raises UsageError, before any is
    contacted, for options that cannot be, and IncompleteRunError where none was probed.
    """
    from raybench.hosts.ansible_setup import data_folder
    from raybench.hosts.preflight import NodeTestOptions, check_names, run_preflight
    from raybench.services.nodes.past import check_history
    from raybench.services.preflight_expectations import expectations_from

    check_names(options.only, options.skip)
    if options.history is not None:
        check_history(options.history)
    expectations = expectations_from(options.expect)
    threading.Thread(target=_import_what_comes_later, daemon=True).start()  # while Ansible reads the inventory
    folder = Path(options.output_dir, f"preflight-{new_run_id()}")

    def begin(inventory: "Inventory") -> Path:
        made = make_output_folder(folder)
        begun(inventory.names)
        return made

    report = run_preflight(
        options.inventories or (data_folder("inventory") / "localhost.yml",),
        begin=begin,
        limit=options.limit,
        only=options.only,
        skip=options.skip,
        expectations=expectations,
        forks=options.forks,
        timeout_seconds=options.timeout_seconds,
        host_timeout_seconds=options.host_timeout_seconds,
        tests=NodeTestOptions(
            level=options.level,
            sizes=options.test_sizes,
        ),
        on_tested=lambda host, _: on_tested(host),
        on_host=lambda one: on_host(one.host, _own_checks(one, options)),
    )
    return _kept(report, folder.absolute(), options.history)


def _import_what_comes_later() -> None:
    """Libraries of the run and its reports. Where one is missing, whoever needs it says so."""
    for name in ("ansible_runner", "raybench.reports.html"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _own_checks(one: "Gathered", options: PreflightOptions) -> "Sequence[CheckResult]":
    """What a host is judged by alone; the comparison with others comes at the end."""
    from raybench.preflight.report import BETWEEN_HOSTS, build_report

    report = build_report([one], only=options.only, skip=(*options.skip, *BETWEEN_HOSTS), finished_at=0.0)
    return report.hosts[0].checks


def _kept(report: "PreflightReport", folder: Path, history: Path | None) -> FinishedPreflight:
    """The report, which is written by now, with its page; written again with what the history adds."""
    from raybench.errors import MissingLibraryError, RaybenchError
    from raybench.preflight.writing import REPORT_NAME, write_report
    from raybench.reports.html import write_html

    page, files, remarks = folder / "preflight.html", [("report", folder / REPORT_NAME)], list[str]()
    if history is not None:
        from raybench.services.nodes.past import recorded

        try:
            report = recorded(report, history)
            write_report(report, folder)
            remarks += [f"{one.host}: it rebooted since it last answered" for one in report.hosts if one.rebooted]
        except (RaybenchError, OSError) as error:
            remarks.append(f"the history has no part of this: {error}")
    try:
        write_html(report, page)
        files.append(("page", page))
    except (MissingLibraryError, OSError) as error:
        remarks.append(f"no HTML report: {error}")
    return FinishedPreflight(report=report, files=tuple(files), remarks=tuple(remarks))


def list_of_checks() -> list[str]:
    """A line for each check of a host, and for what is compared between hosts."""
    from raybench.preflight.checks import CHECKS
    from raybench.preflight.node_tests.plan import CHECKS as NODE_CHECKS

    return [
        *(f"{check.name:<20} {check.title}" for check in CHECKS),
        "drift-hardware, drift-system, drift-versions, drift-network, drift-limits: hosts that differ",
        "rdma-peers: ports that retransmit, or meet congestion, far more than their peers",
        "drift-domain: hosts outside of the NVLink domain that others share",
        "host-login, host-identity, host-clock-spread, host-ports: compared or tried between hosts",
        *(f"{check.name:<20} {check.title} (level {check.level})" for check in NODE_CHECKS),
    ]
