"""``raybench preflight``: are the hosts right, before anything is measured on them?"""

import contextlib
import importlib
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import announce, printing, say
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.preflight import PreflightReport
    from raybench.hosts.inventory import Inventory
    from raybench.preflight.report import Gathered
    from raybench.reports.preflight.table import PreflightTable

EXAMPLES = """\b
Examples:
  raybench preflight                                     # this machine
  raybench preflight -i hosts.yml
  raybench preflight -i gpu-01,gpu-02 --only gpu,rdma
  raybench preflight -i hosts.yml --limit ray_workers --skip host-firewall
  raybench preflight -i hosts.yml --expect gpu_count=8 --expect port_rate_gbits=400
  raybench preflight -i hosts.yml --json > preflight.json

\b
Every expectation is a variable preflight_NAME of the inventory, for all hosts, a group or a host.
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--inventory", "-i", "inventories", multiple=True, metavar="FILE", help="Inventory of Ansible; may be repeated."
)
@click.option("--limit", "-l", metavar="PATTERN", help="Only these hosts or groups of the inventory.")
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK,...",
    help="Only these checks or concerns, such as gpu,host-memlock. May be repeated.",
)
@click.option("--skip", multiple=True, metavar="CHECK,...", help="Leave these checks or concerns out. May be repeated.")
@click.option("--expect", multiple=True, metavar="NAME=VALUE", help="Expect this of every host; may be repeated.")
@click.option(
    "--output-dir", default="runs", show_default=True, type=click.Path(file_okay=False), help="Where the report goes."
)
@click.option("--forks", type=click.IntRange(1, 1000), help="Hosts at a time [default: 50].")
@click.option(
    "--timeout", "timeout_seconds", default=600.0, show_default=True, help="End the run after so many seconds."
)
@click.option(
    "--host-timeout",
    type=click.FloatRange(1, 86400),
    metavar="S",
    help="End what a host does after so many seconds, its login included, and say where it hangs.  [default: 60]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@click.option("--list-checks", is_flag=True, help="List the checks and stop.")
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    inventories: tuple[str, ...],
    limit: str | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    expect: tuple[str, ...],
    output_dir: str,
    forks: int | None,
    timeout_seconds: float,
    host_timeout: float | None,
    as_json: bool,
    list_checks: bool,
) -> None:
    """Check hosts before anything is measured on them: OS, limits, clocks, PCIe, GPUs, RDMA, software, differences.

    Nothing is changed. Hosts are reached by ssh as the inventory says; without -i it is this machine. Exit code 0: no
    check failed; 1: one did; 2: invalid usage; 3: a host did not answer, or the run was not finished.
    """
    if list_checks:
        _list_checks()
        return
    announce("reading the inventory, then probing its hosts")
    from raybench.cli.expect_option import expectations_from  # not needed for --help
    from raybench.hosts.ansible_setup import data_folder
    from raybench.hosts.preflight import check_names, run_preflight
    from raybench.reports.preflight.table import PreflightTable
    from raybench.run_folder import new_run_id

    names, left_out = _names(",".join(only)), _names(",".join(skip))
    check_names(names, left_out)
    expectations = expectations_from(expect)
    threading.Thread(target=_import_what_comes_later, daemon=True).start()  # while Ansible reads the inventory
    folder, shown = Path(output_dir, f"preflight-{new_run_id()}"), contextlib.ExitStack()
    tables: list[PreflightTable] = []

    def begin(inventory: "Inventory") -> Path:
        made = _writable(folder)
        tables.append(shown.enter_context(PreflightTable(sys.stderr, inventory.names)))
        return made

    with shown:
        report = run_preflight(
            inventories or (data_folder("inventory") / "localhost.yml",),
            begin=begin,
            limit=limit,
            only=names,
            skip=left_out,
            expectations=expectations,
            forks=forks,
            timeout_seconds=timeout_seconds,
            host_timeout_seconds=host_timeout,
            on_host=lambda one: _show(tables[0], one, names, left_out),
        )
    _print(report, folder.absolute(), as_json=as_json)
    sys.exit(report.exit_code)


def _import_what_comes_later() -> None:
    """Libraries of the run and its reports. Where one is missing, whoever needs it says so."""
    for name in ("ansible_runner", "raybench.reports.preflight.page"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _show(table: "PreflightTable", one: "Gathered", only: tuple[str, ...], skip: tuple[str, ...]) -> None:
    """A host's own checks, judged as soon as it has answered; the comparison with others comes at the end."""
    from raybench.preflight.report import build_report

    beyond = ("drift", "host-clock-spread", "host-identity", "host-login", "host-ports")
    report = build_report([one], only=only, skip=(*skip, *beyond), finished_at=0.0)
    table.show(one.host, report.hosts[0].checks)


def _print(report: "PreflightReport", folder: Path, *, as_json: bool) -> None:
    from raybench.preflight.lines import findings_lines
    from raybench.preflight.writing import REPORT_NAME
    from raybench.reports.preflight.table import print_preflight

    pages = _write_page(report, folder)
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(report.to_json(), indent=1))
        else:
            print_preflight(report, findings_lines(report, paths=[str(folder / REPORT_NAME), *pages]), sys.stdout)


def _write_page(report: "PreflightReport", folder: Path) -> list[str]:
    from raybench.reports.errors import MissingLibraryError
    from raybench.reports.preflight.page import write_preflight_page

    path = folder / "preflight.html"
    try:
        write_preflight_page(report, path)
    except (MissingLibraryError, OSError) as error:
        say(f"raybench: no HTML report: {error}")
        return []
    return [str(path)]


def _list_checks() -> None:
    from raybench.preflight.checks import CHECKS

    with printing("stdout"):
        for check in CHECKS:
            click.echo(f"{check.name:<20} {check.title}")
        click.echo("drift-hardware, drift-system, drift-versions, drift-network, drift-limits: hosts that differ")
        click.echo("host-login, host-identity, host-clock-spread, host-ports: compared or tried between hosts")


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _writable(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"the output folder {folder} cannot be made: {reason}; choose another with --output-dir"
        ) from error
    return folder.absolute()
