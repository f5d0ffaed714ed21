"""``raybench nodes watch``."""

import sys
from pathlib import Path
from typing import Any

import click

from raybench.cli.cluster_options import host_time_limit, time_limit
from raybench.cli.nodes.options import acting, names_of
from raybench.cli.output import printing
from raybench.cli.usage.command import TopicCommand
from raybench.reports.text import printable

EXAMPLES = """\b
Examples:
  raybench nodes watch -i hosts.yml --interval 300                        looks, and says what changes
  raybench nodes watch -i hosts.yml --slurm                            and what it would drain and resume
  raybench nodes watch -i hosts.yml --slurm --apply --bad 3 --good 6
  raybench nodes watch -i hosts.yml --level 2 --interval 3600             tests idle nodes for a minute every hour
  raybench nodes watch -i hosts.yml --prometheus /var/lib/prometheus/node-exporter/raybench.prom

Ctrl-C ends it in order. Looks in a row are kept in the history: a watch that is started again goes on where it was.
"""


@click.command("watch", cls=TopicCommand, epilog=EXAMPLES)
@click.option("--inventory", "-i", "inventories", multiple=True, metavar="FILE", help="As of preflight.")
@click.option("--limit", "-l", metavar="PATTERN", help="Only these hosts or groups of the inventory.")
@click.option("--only", multiple=True, metavar="CHECK,...", help="Only these checks or concerns. May be repeated.")
@click.option("--skip", multiple=True, metavar="CHECK,...", help="Leave these out. May be repeated.")
@click.option("--expect", multiple=True, metavar="NAME=VALUE", help="As of preflight, such as gpu_count=8.")
@click.option(
    "--level",
    type=click.IntRange(1, 3),
    default=1,
    show_default=True,
    help="1 only looks; 2 tests each node for a minute in each round, 3 for up to ten: let no job run.",
)
@click.option("--interval", "--every", "every_seconds",
              type=click.FloatRange(5), default=300.0, show_default=True, metavar="S",
              help="From the begin of a round to that of the next, seconds.")  # fmt: skip
@click.option("--bad", type=click.IntRange(1), default=3, show_default=True, help="Bad looks in a row that drain.")
@click.option("--good", type=click.IntRange(1), default=3, show_default=True, help="Good looks in a row that resume.")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="End after so many.  [default: go on]")
@click.option("--slurm", "scheduler", flag_value="slurm", help="Drain and resume Slurm's nodes.")
@click.option("--kubernetes", "scheduler", flag_value="kubernetes", help="Taint and label nodes of Kubernetes.")
@acting
@click.option(
    "--prometheus", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write this each round."
)
@click.option("--history", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="[default: nodes.sqlite in the output folder]")  # fmt: skip
@click.option("--output-dir", default="runs", show_default=True, type=click.Path(file_okay=False), help="For reports.")
@click.option("--keep", type=click.IntRange(1), default=10, show_default=True, help="Reports to keep, the newest.")
@click.option("--forks", type=click.IntRange(1, 1000), help="Hosts at a time [default: 50].")
@time_limit(600.0, "End a round after so many seconds.")
@host_time_limit("End what a host does after so many seconds.  [default: 60]")
def command(**options: Any) -> None:
    """Preflight again and again; a node is drained or resumed once it was seen so several times in a row.

    A host that does not answer costs itself alone, and is neither drained nor resumed. Exit code: that of the last
    round, as of preflight; 3 where something could not be done.
    """
    from raybench.services.nodes.judged import ActOptions  # not needed for --help
    from raybench.services.nodes.watch import Hysteresis, WatchOptions, watch
    from raybench.services.preflight import PreflightOptions

    def take(*names: str) -> dict[str, Any]:
        return {name: options[name] for name in names}

    if options["apply"] and not options["scheduler"]:
        raise click.UsageError("--apply needs --slurm or --kubernetes: else there is nobody to tell")
    chosen = WatchOptions(
        preflight=PreflightOptions(
            only=names_of(options["only"]),
            skip=names_of(options["skip"]),
            **take(
                "inventories",
                "limit",
                "expect",
                "level",
                "output_dir",
                "forks",
                "timeout_seconds",
                "host_timeout_seconds",
            ),
        ),
        hysteresis=Hysteresis(**take("bad", "good")),
        act=ActOptions(**take("apply", "force", "most_drained", "resume_degraded", "by_hostname")),
        scheduler=options["scheduler"] or "",
        **take("every_seconds", "rounds", "keep", "prometheus", "history"),
    )
    sys.exit(watch(chosen, say=_say))


def _say(text: str) -> None:
    with printing("stdout"):
        click.echo(printable(text))
        sys.stdout.flush()
