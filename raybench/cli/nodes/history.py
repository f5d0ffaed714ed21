"""``raybench nodes history``."""

import json
import sys
from pathlib import Path

import click

from raybench.cli.output import printing
from raybench.cli.usage.command import TopicCommand
from raybench.reports.text import printable

EXAMPLES = """\b
Examples:
  raybench preflight -i hosts.yml --history nodes.sqlite       begins it, and adds to it
  raybench nodes history nodes.sqlite                          hosts that are not healthy, and what changed
  raybench nodes history nodes.sqlite gpu-07                   all that happened to it
"""


@click.command("history", cls=TopicCommand, epilog=EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("host", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, hosts that are healthy included.")
def command(file: Path, host: str | None, as_json: bool) -> None:
    """Since when nodes are in their state, and what changed since each was last right."""
    from raybench.services.nodes.past import past_of  # not needed for --help

    found = past_of(file, host)
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(found, indent=1))
        else:
            for one in found:
                if host is not None or one["state"] != "healthy":
                    click.echo("\n".join(map(printable, _lines(one))))
            click.echo(f"{sum(one['state'] == 'healthy' for one in found)} of {len(found)} hosts are healthy")
    sys.exit(0)


def _lines(one: dict[str, object]) -> list[str]:
    right = f"last healthy {one['right_at']}" if one["right_at"] else "never seen healthy"
    changed, looks = one["changed"], one["looks"]
    assert isinstance(changed, list)
    assert isinstance(looks, list)
    return [
        f"{one['host']}: {one['state']} since {one['since']}, {right}",
        *(f"  {change}" for change in changed),
        *(f"  {look['at']} {look['state']} {', '.join(look['reasons'][:4])}".rstrip() for look in looks),
    ]
