"""``raybench fabric``: bandwidth and latency between hosts, pair by pair, and what is at fault."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from raybench.cli.cluster_options import with_options
from raybench.cli.output import announce, printing, say
from raybench.cli.usage.command import TopicGroup
from raybench.services.fabric import CHOICES, DEFAULTS

EXAMPLES = """\b
Examples:
  raybench fabric plan --nodes 1000 --leaf-size 32 --simulate
  raybench fabric run -i hosts.yml                        every host with four others, every RDMA device
  raybench fabric run -i hosts.yml --scope all            every pair, in N - 1 rounds
  raybench fabric run -i hosts.yml --tool ib_write_lat --json
  raybench fabric import /var/tmp/ibdiagnet2              what ibdiagnet, UFM, iblinkinfo say of its ports
"""
RUN_EXAMPLES = """\b
Examples:
  raybench fabric run -i hosts.yml
  raybench fabric run -i hosts.yml --scope rails --devices 'mlx5_*' --output-dir runs
  raybench fabric run -i gpu-01,gpu-02,gpu-03, --tool iperf3
  raybench fabric run -i hosts.yml --limit 'gpu-0*' --gpu-memory auto

\b
Exit codes: 0 all is as expected; 1 a host, device or way is slow or down; 2 invalid usage;
3 something could not be tested. Every option is also a variable of the inventory, fabric_NAME.
"""
PLAN_EXAMPLES = """\b
Examples:
  raybench fabric plan --nodes 10 --scope all
  raybench fabric plan --nodes 1000 --leaf-size 32 --simulate
"""
IMPORT_EXAMPLES = """\b
Examples:
  raybench fabric import /var/tmp/ibdiagnet2                      all files of ibdiagnet that can be read
  raybench fabric import ports.json alarms.json                   curl -sk -u USER https://UFM/ufmRest/resources/ports
  iblinkinfo > links.txt; ibqueryerrors > errors.txt; raybench fabric import links.txt errors.txt

\b
Exit codes: 0 nothing is wrong in what the files tell of, or only worth a look; 1 a port is at fault;
2 invalid usage, or no file that can be read here; 3 nothing could be judged.
"""


@click.group(cls=TopicGroup, epilog=EXAMPLES)
def command() -> None:
    """Measure the network between hosts in rounds of disjoint pairs, and say what is at fault."""


_SCOPE = click.option(
    "--scope", type=click.Choice(CHOICES["scope"]),
    help="ring: neighbours; sample: every pair of leaves, or four random partners each; rails: neighbours, one NIC at "
         "a time; all: every pair.  [default: sample]",
)  # fmt: skip


@command.command("plan", epilog=PLAN_EXAMPLES)
@with_options([
    click.option("--nodes", type=click.IntRange(2, 100_000), required=True, metavar="N", help="Hosts of the fabric."),
    click.option("--leaf-size", "--leaf", "leaf", type=click.IntRange(1, 100_000), metavar="L",
                 help="Hosts of a leaf switch."),
    _SCOPE,
    click.option("--matchings", type=click.IntRange(1), metavar="K", help="Rounds of scope sample.  [default: 4]"),
    click.option("--seconds", type=click.IntRange(1, 3600), default=DEFAULTS.seconds, show_default=True, metavar="S",
                 help="Duration of a test."),
    click.option("--simulate", is_flag=True, help="Plant bad hosts and ways at random, and look for them."),
    click.option("--trials", type=click.IntRange(1, 100_000), default=400, show_default=True, metavar="T",
                 help="Simulated trials."),
    click.option("--seed", type=int, default=0, show_default=True, help="Of random choices."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
])  # fmt: skip
def plan(as_json: bool, **options: Any) -> None:
    """Say how many rounds a fabric needs, how long they take, and whether planted faults would be found."""
    announce(f"planning the rounds of {options['nodes']} hosts")
    from raybench.services.fabric import plan as plan_fabric

    planned = plan_fabric(options)
    with printing("stdout"):
        if as_json:
            _print_json(planned.to_json())
        else:
            from raybench.reports.terminal.report import print_document

            print_document(planned, sys.stdout)
    sys.exit(planned.exit_code)


@command.command("run", epilog=RUN_EXAMPLES)
@with_options([
    click.option("-i", "--inventory", multiple=True, required=True, metavar="FILE",
                 help="Ansible inventory, or a list of hosts with a comma. May be repeated."),
    click.option("--group", default="all", show_default=True, metavar="NAME", help="Group of hosts to test."),
    click.option("--limit", metavar="PATTERN", help="As Ansible's --limit."),
    click.option("--tool", type=click.Choice(CHOICES["tool"]), help="auto: ib_write_bw where hosts have RDMA ports, "
                 "else iperf3, else a TCP stream of raybench's own.  [default: auto]"),
    _SCOPE,
    click.option("--devices", metavar="NAME,...", help="RDMA devices, names or patterns.  [default: all]"),
    click.option("--seconds", type=int, metavar="S", help="Duration of a test.  [default: 2]"),
    click.option("--message-bytes", metavar="B", type=int, help="Message size of ib_write_bw.  [default: 65536]"),
    click.option("--queue-pairs", metavar="Q", type=int, help="Queue pairs of ib_write_bw.  [default: 2]"),
    click.option("--streams", metavar="P", type=int, help="TCP connections of a test.  [default: 4]"),
    click.option("--gpu-memory", type=click.Choice(CHOICES["gpu_memory"]), help="Transfer from and to GPU memory "
                 "(--use_cuda or --use_rocm, with DMA-BUF where built in).  [default: off]"),
    click.option("--gid-index", type=int, metavar="N", help="RoCE GID index.  [default: v2 with an IPv4 address]"),
    click.option("--traffic-class", type=int, metavar="TC", help="RoCE traffic class (DSCP x 4)."),
    click.option("--matchings", type=int, metavar="K", help="Random rounds of scope sample.  [default: 4]"),
    click.option("--leaf-size", type=int, metavar="L", help="Hosts of a leaf switch, in the inventory's order; else "
                 "the variable fabric_leaf of each host."),
    click.option("--confirm-rounds", type=int, metavar="R", help="Most rounds to find the cause.  [default: 3]"),
    click.option("--slow-ratio", type=float, metavar="X", help="Least share of what links carry.  [default: 0.9]"),
    click.option("--outlier-ratio", type=float, metavar="X", help="Least share of what is typical.  [default: 0.8]"),
    click.option("--emulated-ratio", type=float, metavar="X", help="The same for software devices.  [default: 0.25]"),
    click.option("--max-latency-us", type=float, metavar="US", help="Most latency that passes.  [default: compared]"),
    click.option("--forks", type=click.IntRange(1), metavar="N", help="Hosts that Ansible works on at once."),
    click.option("--output-dir", default="runs", show_default=True, metavar="DIR",
                 help="Where the run's folder is made."),
    click.option("--json", "as_json", is_flag=True, help="Print fabric.json on standard output instead of the tables."),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
])  # fmt: skip
def run(  # noqa: PLR0917 - one parameter an option
    inventory: tuple[str, ...],
    group: str,
    limit: str | None,
    forks: int | None,
    output_dir: str,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Measure between the hosts of an inventory. Writes DIR/RUN_ID/fabric.json and report.html; changes no host."""
    announce("reading the inventory", quiet=quiet)
    from raybench.reports.fabric.progress import RoundProgress
    from raybench.services.fabric import FabricOptions, measure_fabric

    options = FabricOptions(
        inventory=inventory, group=group, limit=limit, forks=forks, output_dir=output_dir, settings=settings
    )
    with RoundProgress(quiet=quiet) as progress:
        finished = measure_fabric(
            options,
            begun=progress.begin,
            on_progress=lambda now: progress.show(now.phase, now.done, now.total, now.hosts),
        )
    with printing("stdout", is_kept=finished.kept):
        if as_json or not finished.kept:
            _print_json(finished.report.to_json())
        else:
            from raybench.reports.terminal.report import print_document

            print_document(finished.report, sys.stdout, files=finished.files)
    for remark in finished.remarks:
        say(f"raybench: {remark}")
    sys.exit(finished.exit_code)


@command.command("import", epilog=IMPORT_EXAMPLES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def import_command(files: tuple[Path, ...], as_json: bool) -> None:
    """Read what the fabric's own tools say: ports down, slow or with errors, bit errors, GUIDs given twice, alarms.

    FILE is a folder, or a file of ibdiagnet (ibdiagnet2.log, .db_csv, .net_dump_ext), of UFM's REST interface (ports,
    alarms, events, unhealthy ports), of iblinkinfo or ibqueryerrors. What none of them tells of is listed as not known.
    """
    from raybench.services.fabric import import_fabric

    report = import_fabric(files)
    with printing("stdout"):
        if as_json:
            _print_json(report.to_json())
        else:
            from raybench.reports.terminal.report import print_document

            print_document(report, sys.stdout)
    sys.exit(report.exit_code)


def _print_json(report: Mapping[str, Any]) -> None:
    import json

    click.echo(json.dumps(report, indent=2))
