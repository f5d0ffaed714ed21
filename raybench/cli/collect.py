"""``raybench collect``."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.output import announce, printing, say
from raybench.errors import UsageError
from raybench.run_folder import new_run_id
from raybench.units import parse_amount
from raybench.whole_file import write_whole

if TYPE_CHECKING:
    from diagnostics.findings import Diagnosis
    from raybench.documents.collection import CollectionReport
    from raybench.hosts.collect_host import HostReport

EXAMPLES = """\b
Examples:
  raybench collect -i hosts.yml                          NCCL logs and facts of all hosts, diagnosed
  raybench collect -i hosts.yml --run 20261121-014502-3f9a --path '/scratch/job7/nccl.*'
  raybench collect -i hosts.yml --limit gpu-03 --path /var/log/training --file-limit 64M
"""


@click.command(epilog=EXAMPLES)
@click.option("-i", "--inventory", multiple=True, required=True, metavar="FILE", help="Inventory; may be repeated.")
@click.option("-l", "--limit", metavar="PATTERN", help="Only these hosts, as Ansible's --limit.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="GLOB",
    help="Files or folders on the hosts, absolute; *, ? "
    "and [...] in any part. May be repeated.  [default: where NCCL's and raybench's logs mostly are]",
)
@click.option(
    "--run",
    "run_id",
    metavar="RUN_ID",
    help="Put them into the folder of this run, and go on where an earlier collection ended.  [default: a new folder]",
)
@click.option("--output-dir", default="runs", show_default=True, metavar="DIR", help="Where runs have their folders.")
@click.option(
    "--file-limit", default="16M", show_default=True, metavar="SIZE", help="Most of one file; its tail is kept."
)
@click.option(
    "--host-limit",
    default="512M",
    show_default=True,
    metavar="SIZE",
    help="Most of one host; its newest files are kept.",
)
@click.option(
    "--accept-new",
    is_flag=True,
    help="Note the keys of hosts that are not in known_hosts. Changed keys are refused all the same.",
)
@click.option(
    "--ssh-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Instead of ~/.ssh/config.",
)
@click.option("-f", "--forks", type=click.IntRange(1, 256), default=16, show_default=True, help="Hosts at a time.")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 86400),
    default=600.0,
    show_default=True,
    metavar="S",
    help="Time of one host, seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print collection.json instead of a table.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(**options: Any) -> None:
    """Fetch NCCL logs and facts of hosts over SSH into one run's folder, and say what the logs prove.

    SFTP, hosts side by side; a transfer that is cut goes on where it was. Host keys are checked; ~/.ssh/config and the
    agent are used, as are ansible_host, ansible_port, ansible_user and the key of the inventory.
    """  # fmt: skip
    sys.exit(_collect(options))


def _collect(options: Mapping[str, Any]) -> int:
    announce("reading the inventory, then connecting to its hosts", quiet=options["quiet"])
    from raybench.hosts.collect import DEFAULT_PATTERNS, CollectPlan, collect
    from raybench.hosts.inventory import read_inventory
    from raybench.processes.interrupt import Interrupt

    patterns = _checked_patterns(options["paths"])
    limits = [parse_amount(f"--{name}-limit", options[f"{name}_limit"], "4K") for name in ("file", "host")]
    inventory = read_inventory(options["inventory"], limit=options["limit"])
    folder = _folder(options["output_dir"], options["run_id"])
    plan = CollectPlan(
        folder=folder,
        patterns=patterns or DEFAULT_PATTERNS,
        file_limit_bytes=limits[0],
        host_limit_bytes=limits[1],
        seconds=options["timeout"],
        ssh_config=options["ssh_config"],
        accept_new=options["accept_new"],
    )
    with Interrupt().installed() as interrupt, interrupt.deferred():
        reports = collect(
            inventory.hosts,
            plan,
            workers=options["forks"],
            stop=interrupt.event,
            on_host=(lambda _: None) if options["quiet"] else _say_host,
        )
    return _deliver(reports, folder, options)


def _checked_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    for pattern in patterns:
        if not pattern.startswith("/") or "\0" in pattern:
            raise UsageError(f"--path {pattern!r} is not an absolute path on the hosts, such as '/scratch/job7/nccl.*'")
    return tuple(patterns)


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


def _say_host(report: "HostReport") -> None:
    with_trouble = f", {report.problems[0]}" if report.problems else ""
    say(f"raybench: {report.name}: {report.status}, {len(report.files)} files{with_trouble}")


def _deliver(reports: Sequence["HostReport"], folder: Path, options: Mapping[str, Any]) -> int:
    import msgspec

    from raybench.documents.collection import CollectionReport

    diagnosis = _diagnose(folder)
    collection = CollectionReport(
        folder=str(folder / "hosts"),
        hosts=tuple(report.collected() for report in reports),
        diagnosis=diagnosis.to_json() if diagnosis else None,
    )
    content = collection.to_json()
    _write(folder / "hosts" / "collection.json", content)
    if diagnosis:
        _write(folder / "hosts" / "diagnosis.json", diagnosis.to_json())
    with printing("stdout"):
        if options["as_json"]:
            click.echo(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())
        else:
            _print(collection, diagnosis)
    if any(report.status != "complete" for report in reports):
        return 3
    return exit_code(diagnosis, named_paths=bool(options["paths"]))


def exit_code(diagnosis: "Diagnosis | None", *, named_paths: bool) -> int:
    """Of a collection from all hosts: 3 where what the user named is on none of them, or the logs do not tell."""
    if diagnosis is None:
        return 3 if named_paths else 0
    if any(finding.severity == "critical" for finding in diagnosis.findings):
        return 1
    return 3 if diagnosis.verdict == "unknown" and not diagnosis.empty else 0


def _write(path: Path, content: Mapping[str, Any]) -> None:
    import msgspec

    try:
        write_whole(path, msgspec.json.format(msgspec.json.encode(content), indent=2))
    except OSError as error:
        say(f"raybench: {path} could not be written ({error.strerror})")


def _diagnose(folder: Path) -> "Diagnosis | None":
    from diagnostics.engine import diagnose_paths
    from diagnostics.errors import UnreadableInputError

    found = sorted(path for path in (folder / "hosts").glob("*/files") if any(path.rglob("*")))
    try:
        return diagnose_paths([str(path) for path in found]) if found else None
    except UnreadableInputError as error:
        say(f"raybench: the logs could not be diagnosed: {error}")
        return None


def _print(collection: "CollectionReport", diagnosis: "Diagnosis | None") -> None:
    from diagnostics.output import render
    from raybench.reports.hosts.collection import print_collection

    print_collection(collection, sys.stdout)
    if diagnosis is None:
        click.echo("no logs were found; say with --path where they are")
    else:
        click.echo(render(diagnosis, "text"), nl=False)
