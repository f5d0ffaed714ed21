"""``raybench configure``: bring nodes into the state that training needs, and back."""

import json
import sys
from typing import Any

import click

from raybench.cli.cluster_options import LOGIN_LIMIT, host_time_limit, time_limit
from raybench.cli.output import announce, printing, say
from raybench.cli.usage.command import TopicCommand
from raybench.errors import UsageError

EXAMPLES = """\b
Examples:
  raybench configure -i hosts.yml --check --diff       # what would be changed; nothing is
  raybench configure -i hosts.yml
  raybench configure -i hosts.yml --tags memlock,nofile --limit gpu-07
  raybench configure -i hosts.yml --rollback           # the first state, byte for byte
  raybench configure --check                           # this machine; without --check you are asked first
  raybench configure -i hosts.yml --rollback --tags roce_qos --json
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.option(
    "--inventory", "-i", "inventories", multiple=True, metavar="FILE", help="Inventory of Ansible; may be repeated."
)
@click.option("--limit", metavar="PATTERN", help="Only these hosts or groups of the inventory.")
@click.option("--tags", "tag_text", default="", metavar="TAG,...", help="Only these roles or items, such as memlock.")
@click.option("--check", "--dry-run", is_flag=True, help="Say what would be changed, and change nothing.")
@click.option("--diff", is_flag=True, help="Show every change line by line.")
@click.option("--rollback", is_flag=True, help="Bring back what the hosts were before.")
@click.option("--remove-packages", is_flag=True, help="With --rollback: remove the packages that were installed, too.")
@click.option("--list-tags", is_flag=True, help="List roles, their items and where their variables stand, and stop.")
@click.option("--yes", "-y", is_flag=True, help="Without -i: change this machine without asking.")
@click.option("--forks", type=click.IntRange(1, 1000), help="Hosts at a time [default: 50].")
@time_limit(7200.0, "End the run after so many seconds.")
@host_time_limit(LOGIN_LIMIT)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def command(tag_text: str, diff: bool, list_tags: bool, yes: bool, as_json: bool, **options: Any) -> None:
    """Bring nodes into the state that GPU training needs: RDMA, limits, MTU, QoS, clock, NCCL's file.

    Values stand in the inventory (group_vars); every one has a default, see the READMEs of --list-tags. Only what is
    not right is changed, its first state is kept on the host, and nothing ever reboots. Without -i it is this machine,
    and you are asked first.
    """
    from raybench.services.configure import ConfigureOptions, configure, list_of_tags  # not needed for --help

    if options["remove_packages"] and not options["rollback"]:
        raise click.UsageError("--remove-packages goes with --rollback")
    if list_tags:
        with printing("stdout"):
            click.echo("\n".join(list_of_tags()))
        return
    announce("reading the inventory")
    from raybench.reports.builders.asked import Asked
    from raybench.reports.terminal.report import print_document

    tags = tuple(filter(None, (tag.strip() for tag in tag_text.split(","))))
    done = configure(
        ConfigureOptions(tags=tags, **options),
        agree=(lambda _: None) if yes else _ask,
        on_task=(lambda task: say(f"raybench: {task}")) if sys.stderr.isatty() else None,
    )
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(done.to_json(), indent=1))
        else:
            print_document(done, sys.stdout, asked=Asked(diff=diff))
    sys.exit(done.exit_code)


def _ask(intent: str) -> None:
    """Have the user agree that this machine is changed. Raises UsageError where nobody is there to be asked."""
    others = "-i hosts.yml names other hosts, --check changes nothing"
    if not sys.stdin.isatty():
        raise UsageError(f"without -i this would {intent}; give --yes if that is meant ({others})")
    if not click.confirm(f"Without -i this will {intent} ({others}). Go on?", err=True):
        raise click.Abort
