"""``raybench expected``: what a healthy system of a shape reaches, without having one."""

import json
import sys
from typing import Any

import click

from raybench.cli.output import printing
from raybench.cli.usage.command import TopicCommand
from raybench.services.expected import CHOICES

EXAMPLES = """\b
Examples:
  raybench expected --node-type p5.48xlarge --nodes 2
  raybench expected --gpu H100 --nodes 4 --nics 8 --nic-gbit 400 --operation all_gather
  raybench expected --gpu MI300X --nodes 1 --sizes 1M:16G:4 --json
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.option("--node-type", metavar="NAME", help="A machine as it is sold, such as p5.48xlarge or 'DGX H100'.")
@click.option("--gpu", metavar="NAME", help="H100, A100, MI300X, ..., or a device name of nvidia-smi.")
@click.option("--nodes", type=int, default=1, show_default=True, help="Nodes.")
@click.option("--gpus-per-node", type=int, help="Ranks a node.  [default: the node type's, else 8]")
@click.option(
    "--gpus-installed",
    type=int,
    help="GPUs of a node: ranks on some of them use the NICs beside these.  [default: the node type's, else "
    "--gpus-per-node, or 8 where a node has more NICs than that]",
)
@click.option("--nics", type=int, help="NICs a node for GPU traffic, of all its GPUs.")
@click.option("--nic-gbit", type=float, help="Line rate of one, Gbit/s.")
@click.option(
    "--network", type=click.Choice(CHOICES["network"]), help="Kind of network.  [default: the node type's, else rdma]"
)
@click.option("--no-nvls", is_flag=True, help="NVLink SHARP is off (NCCL_NVLS_ENABLE=0, or NCCL_ALGO=Ring).")
@click.option(
    "--operation", type=click.Choice(CHOICES["operation"]), default="all_reduce", show_default=True, help="Collective."
)
@click.option("--sizes", default="1M:16G:4", show_default=True, metavar="BEGIN:END:FACTOR", help="Message sizes.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def command(operation: str, sizes: str, as_json: bool, **options: Any) -> None:
    """Print the bus bandwidth that a healthy system of a shape reaches, by message size, and why.

    Nothing is measured: the figures follow from published tables of healthy systems. Where none is of
    this kind, the reason is printed, and the exit code is 3.
    """
    from raybench.services.expected import SystemOptions, expected_bandwidth

    answer = expected_bandwidth(SystemOptions(**options), operation=operation, sizes=sizes)
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(answer.to_json()))
        else:
            from raybench.reports.terminal.report import print_document

            print_document(answer, sys.stdout)
    sys.exit(answer.exit_code)
