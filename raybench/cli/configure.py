"""``raybench configure``: bring nodes into the state that training needs, and back."""

import json
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import announce, printing, say
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.hosts.playbook import PlaybookEvent

EXAMPLES = """\b
Examples:
  raybench configure -i hosts.yml --check --diff       # what would be changed; nothing is
  raybench configure -i hosts.yml
  raybench configure -i hosts.yml --tags memlock,nofile --limit gpu-07
  raybench configure -i hosts.yml --rollback           # the first state, byte for byte
  raybench configure --check                           # this machine; without --check you are asked first
  raybench configure -i hosts.yml --rollback --tags roce_qos --json
"""


@click.command(epilog=EXAMPLES)
@click.option(
    "--inventory", "-i", "inventories", multiple=True, metavar="FILE", help="Inventory of Ansible; may be repeated."
)
@click.option("--limit", metavar="PATTERN", help="Only these hosts or groups of the inventory.")
@click.option("--tags", "tag_text", default="", metavar="TAG,...", help="Only these roles or items, such as memlock.")
@click.option("--check", is_flag=True, help="Say what would be changed, and change nothing.")
@click.option("--diff", is_flag=True, help="Show every change line by line.")
@click.option("--rollback", is_flag=True, help="Bring back what the hosts were before.")
@click.option("--remove-packages", is_flag=True, help="With --rollback: remove the packages that were installed, too.")
@click.option("--list-tags", is_flag=True, help="List roles, their items and where their variables stand, and stop.")
@click.option("--yes", "-y", is_flag=True, help="Without -i: change this machine without asking.")
@click.option("--forks", type=click.IntRange(1, 1000), help="Hosts at a time [default: 50].")
@click.option(
    "--timeout", "timeout_seconds", default=7200.0, show_default=True, help="End the run after so many seconds."
)
@click.option(
    "--host-timeout",
    type=click.FloatRange(1, 86400),
    metavar="S",
    help="Give a host up that has not let raybench log in after so many seconds, and say where its login hangs.  "
    "[default: 60]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def command(  # noqa: PLR0913, PLR0917 - one parameter an option
    inventories: tuple[str, ...],
    limit: str | None,
    tag_text: str,
    check: bool,
    diff: bool,
    rollback: bool,
    remove_packages: bool,
    list_tags: bool,
    yes: bool,
    forks: int | None,
    timeout_seconds: float,
    host_timeout: float | None,
    as_json: bool,
) -> None:
    """Bring nodes into the state that GPU training needs: RDMA, limits, MTU, QoS, clock, NCCL's file.

    Values stand in the inventory (group_vars); every one has a default, see the READMEs of --list-tags. Only what is
    not right is changed, its first state is kept on the host, and nothing ever reboots. Without -i it is this machine,
    and you are asked first.
    """
    if remove_packages and not rollback:
        raise click.UsageError("--remove-packages goes with --rollback")
    if list_tags:
        _list_tags()
        return
    announce("reading the inventory")
    from raybench.hosts.ansible_setup import data_folder  # not needed for --help
    from raybench.hosts.configuration import check_tags, configure_hosts
    from raybench.hosts.inventory import read_inventory
    from raybench.reports.hosts.configuration import configuration_lines

    tags = tuple(filter(None, (tag.strip() for tag in tag_text.split(","))))
    check_tags(tags)
    if not inventories and not check and not yes:
        _ask(rollback=rollback)
    sources: tuple[str | Path, ...] = inventories or (data_folder("inventory") / "localhost.yml",)
    done = configure_hosts(
        read_inventory(sources, limit=limit),
        rollback=rollback,
        tags=tags,
        limit=limit,
        check=check,
        forks=forks,
        remove_packages=remove_packages,
        timeout_seconds=timeout_seconds,
        host_timeout_seconds=host_timeout,
        on_event=_progress if sys.stderr.isatty() else None,
    )
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(done.to_json(), indent=1))
        else:
            for line in configuration_lines(done, diff=diff):
                click.echo(line)
    sys.exit(done.exit_code)


def _list_tags() -> None:
    from raybench.hosts.configuration import tags_by_role

    with printing("stdout"):
        for role, items in tags_by_role().items():
            click.echo(f"{role.name}: {', '.join(items)}\n  variables: {role / 'README.md'}")


def _ask(*, rollback: bool) -> None:
    """Have the user agree that this machine is changed. Raises UsageError where nobody is there to be asked."""
    what = f"{'bring back the first state of' if rollback else 'change settings of'} this machine, {platform.node()}"
    others = "-i hosts.yml names other hosts, --check changes nothing"
    if not sys.stdin.isatty():
        raise UsageError(f"without -i this would {what}; give --yes if that is meant ({others})")
    if not click.confirm(f"Without -i this will {what} ({others}). Go on?", err=True):
        raise click.Abort


def _progress(event: "PlaybookEvent") -> None:
    if event.kind == "task_start":
        say(f"raybench: {event.task}")
