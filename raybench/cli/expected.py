"""``raybench expected``: what a healthy system of a shape reaches, without having one."""

import json
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.output import printing
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.documents.expectation import ExpectedBandwidth
    from raybench.expectations.regimes import System

EXAMPLES = """\b
Examples:
  raybench expected --node-type p5.48xlarge --nodes 2
  raybench expected --gpu H100 --nodes 4 --nics 8 --nic-gbit 400 --operation all_gather
  raybench expected --gpu MI300X --nodes 1 --sizes 1M:16G:4 --json
"""
_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_FAMILIES = ("rdma", "efa", "tcpxo", "sockets")


@click.command(epilog=EXAMPLES)
@click.option("--node-type", metavar="NAME", help="A machine as it is sold, such as p5.48xlarge or 'DGX H100'.")
@click.option("--gpu", metavar="NAME", help="H100, A100, MI300X, ..., or a device name of nvidia-smi.")
@click.option("--nodes", type=int, default=1, show_default=True, help="Nodes.")
@click.option("--gpus-per-node", type=int, help="Ranks a node.  [default: the node type's, else 8]")
@click.option("--nics", type=int, help="Network cards a node for GPU traffic.")
@click.option("--nic-gbit", type=float, help="Line rate of one, Gbit/s.")
@click.option("--network", type=click.Choice(_FAMILIES), help="Kind of network.  [default: the node type's, else rdma]")
@click.option("--no-nvls", is_flag=True, help="NVLink SHARP is off (NCCL_NVLS_ENABLE=0, or NCCL_ALGO=Ring).")
@click.option(
    "--operation", type=click.Choice(_OPERATIONS), default="all_reduce", show_default=True, help="Collective."
)
@click.option("--sizes", default="1M:16G:4", show_default=True, metavar="BEGIN:END:FACTOR", help="Message sizes.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def command(operation: str, sizes: str, as_json: bool, **options: Any) -> None:
    """Print the bus bandwidth that a healthy system of a shape reaches, by message size, and why.

    Nothing is measured: the figures follow from published tables of healthy systems. Where none is of
    this kind, the reason is printed, and the exit code is 3.
    """
    from raybench.expectations.expected import Expectation, expect
    from raybench.expectations.regimes import NoExpectation
    from raybench.sizes import parse_sizes

    system = _system(options)
    answers = {size: expect(operation, size, system) for size in parse_sizes(sizes)}
    unknown = next((answer.reason for answer in answers.values() if isinstance(answer, NoExpectation)), None)
    known = {size: answer for size, answer in answers.items() if isinstance(answer, Expectation)}
    document = _document(operation, known, unknown)
    with printing("stdout"):
        click.echo(json.dumps(document.to_json()) if as_json else _text(operation, known, unknown))
    if document.exit_code:
        raise SystemExit(document.exit_code)


def _system(options: dict[str, Any]) -> "System":
    from raybench.expectations.regimes import System
    from raybench.hardware.gpus import gpu_for
    from raybench.hardware.nodes import node_type_named

    node = node_type_named(options["node_type"]) if options["node_type"] else None
    if node is None and not options["gpu"]:
        raise UsageError("name the machine: --node-type, or --gpu with --nics and --nic-gbit")
    for name in ("nodes", "gpus_per_node", "nics"):
        value = options[name]
        if value is not None and not 0 < value <= 100_000:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be at least 1 and at most 100000")
    rate = options["nic_gbit"]
    if rate is not None and not 0 < rate <= 100_000:
        raise UsageError(f"--nic-gbit is {rate:g}; it must be above 0 and at most 100000")
    per_node = options["gpus_per_node"] or (node.gpus if node else 8)
    return System(
        gpu=gpu_for(options["gpu"]) if options["gpu"] else node.gpu,  # type: ignore[union-attr]
        ranks=options["nodes"] * per_node,
        nodes=options["nodes"],
        nvlink_ranks=per_node,
        nics=options["nics"] or (node.nics if node else None),
        nic_gbit=rate or (node.nic_gbit if node else None),
        family=options["network"] or (_family(node.network) if node else "rdma"),
        nvls=False if options["no_nvls"] else None,
    )


def _family(network: str) -> Any:
    """Of a node type's network, by its name in nodes.csv."""
    known = {"EFA": "efa", "GPUDirect-TCPXO": "tcpxo", "ENA": "sockets", "GPUDirect-TCPX": None}
    return known.get(network.split(maxsplit=1)[0], "rdma")


def _document(operation: str, known: dict[int, Any], unknown: str | None) -> "ExpectedBandwidth":
    from raybench.documents.expectation import ExpectedBandwidth, ExpectedPoint

    points = tuple(
        ExpectedPoint(message_bytes=size, busbw_gb_per_s=one.bus_gb_per_s, limit=one.limit, basis=one.basis)
        for size, one in known.items()
    )
    return ExpectedBandwidth(operation=operation, points=points, unknown=unknown)


def _text(operation: str, known: dict[int, Any], unknown: str | None) -> str:
    from raybench.units import format_bytes

    if unknown is not None or not known:
        return f"# expected bus bandwidth of {operation} unknown: {unknown}"
    last = list(known.values())[-1]
    lines = [f"# {operation}, expected: {last.basis}", f"# large messages are slow below {last.limit:.0%} of it"]
    lines += [
        f"{'size':>8}  {'busbw GB/s':>10}",
        *(f"{format_bytes(size):>8}  {one.bus_gb_per_s:10.1f}" for size, one in known.items()),
    ]
    return "\n".join(lines)
