"""``raybench estimate``: what a training run will send, hold, take and cost, before it is run."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.estimate_machine import machine_of, network_of
from raybench.cli.output import printing
from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.cli.estimate_machine import Machine
    from raybench.hardware.gpus import Gpu
    from raybench.performance_model.cost import Price
    from raybench.performance_model.estimate import EstimateRequest
    from raybench.performance_model.layout import Layout, Network
    from raybench.performance_model.transformer import Transformer

EXAMPLES = """\b
Examples:
  raybench estimate --model llama-8b --world-size 64 --strategy fsdp --node-type p5.48xlarge
  raybench estimate --model llama-70b --world-size 64 --gpu H100 --nics 8 --nic-gbit 400 --activation-checkpointing
  raybench estimate --model llama-7b --world-size 4 --gpus-per-node 1 --gpu A10 --nic-gb-per-s 1 --lora-rank 16 --qlora
  raybench estimate --model llama-8b --world-size 16 --gpu H100 --result runs/20261121-120000-ab12/result.json
  raybench estimate --model gpt2-xl --layers 24 --world-size 16 --gpu A100 --bandwidth 92 --price 21.96 --json
"""

_MOST = 10**12
_BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}

_OPTIONS: list[Any] = [
    click.option("--model", "model_name", default="llama-8b", show_default=True, metavar="NAME",
                 help="tiny, gpt2, gpt2-xl, llama-7b, llama-8b, llama-70b, mistral-7b, ...; an unknown one lists all."),
    click.option("--layers", type=int, help="Another number of layers than the model's."),
    click.option("--hidden", type=int, help="Another hidden size."),
    click.option("--heads", type=int, help="Another number of attention heads."),
    click.option("--kv-heads", type=int, help="Another number of key and value heads."),
    click.option("--feedforward", type=int, help="Another inner width of the MLP."),
    click.option("--vocabulary", type=int, help="Another vocabulary."),
    click.option("--world-size", type=int, default=8, show_default=True, help="Ranks, one per GPU."),
    click.option("--gpus-per-node", type=int, help="Ranks a node.  [default: the node type's, else 8]"),
    click.option("--strategy", default="ddp", show_default=True, metavar="ddp|fsdp|fsdp-grad-op|fsdp-hybrid",
                 help="How parameters, gradients and optimizer state are spread."),
    click.option("--node-type", metavar="NAME", help="A machine as it is sold, such as p5.48xlarge or 'DGX H100': its "
                 "GPUs, network cards and list price."),
    click.option("--gpu", metavar="NAME", help="H100, A100, L40S, ..., or a device name of nvidia-smi."),
    click.option("--memory", metavar="SIZE", help="Memory of a GPU, such as 80G, instead of the table's."),
    click.option("--nics", type=int, help="Network cards a node, with --nic-gbit."),
    click.option("--nic-gbit", type=float, help="Line rate of one card, Gbit/s; 92 % of it are counted on."),
    click.option("--nic-gb-per-s", type=float, help="What all cards of a node together carry, measured, GB/s."),
    click.option("--node-gb-per-s", type=float, help="What a GPU's links within the node carry, measured, GB/s."),
    click.option("--bandwidth", type=float, help="Measured bus bandwidth of all ranks, GB/s (raybench run)."),
    click.option("--result", "result_file", metavar="FILE", help="result.json of a raybench run: its all_reduce gives "
                 "bandwidth and latency; other options win over it."),
    click.option("--latency-us", type=float, help="A hop between nodes, microseconds.  [default: 12]"),
    click.option("--batch-size", type=int, default=1, show_default=True, help="Samples a rank and micro-batch."),
    click.option("--sequence-length", type=int, help="Tokens a sample.  [default: the model's, at most 4096]"),
    click.option("--accumulation", type=int, default=1, show_default=True, help="Micro-batches a step."),
    click.option("--reduce-each/--reduce-last", default=False, help="FSDP with --accumulation: reduce gradients in "
                 "each micro-batch, or add them up whole and reduce them in the last, as raybench trains: less is "
                 "sent, more is held.  [default: last]"),
    click.option("--dtype", type=click.Choice(list(_BYTES)), default="bf16", show_default=True,
                 help="Type of the computation."),
    click.option("--parameter-dtype", type=click.Choice(["fp32", "bf16", "fp16"]), default="fp32", show_default=True,
                 help="Type in which parameters are stored and updated."),
    click.option("--reduce-dtype", type=click.Choice(["fp32", "bf16", "fp16"]), default="fp32", show_default=True,
                 help="Type in which FSDP reduces gradients."),
    click.option("--optimizer", default="adamw", show_default=True, metavar="sgd|momentum|adam|adamw|adamw-8bit",
                 help="For the memory of its state and the time of the update."),
    click.option("--activation-checkpointing", is_flag=True, help="Keep only each block's input and compute it again."),
    click.option("--no-flash-attention", is_flag=True, help="Attention that stores its probabilities."),
    click.option("--bucket-view/--no-bucket-view", default=True, help="DDP with gradient_as_bucket_view, as raybench "
                 "trains, or with buckets as a copy of the gradients.  [default: on]"),
    click.option("--lora-rank", type=int, default=0, help="Train adapters of this rank only; the base is frozen."),
    click.option("--lora-targets", metavar="NAME,...", help="q_proj, v_proj, ...  [default: every linear layer]"),
    click.option("--qlora", is_flag=True, help="The frozen base in 4 bits; needs --lora-rank."),
    click.option("--efficiency", metavar="LOW:HIGH", help="Share of the GPU's peak that computation reaches.  "
                 "[default: 0.4:0.7 for A100, else 0.3:0.5; assumed]"),
    click.option("--price", type=float, help="Of a node for an hour.  [default: the node type's list price]"),
    click.option("--prices", metavar="FILE", help="CSV with name,usd_per_node_hour,date,source in place of the list "
                 "prices."),
    click.option("--currency", default="USD", show_default=True, help="Of --price."),
    click.option("--epoch-samples", type=int, help="Samples of an epoch, for its cost."),
    click.option("--json", "as_json", is_flag=True, help="JSON (raybench.estimate/1) instead of text."),
]  # fmt: skip


def _with_options(function: Any) -> Any:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command(epilog=EXAMPLES)
@_with_options
def command(as_json: bool, **options: Any) -> None:
    """Estimate communication, memory, step time, throughput and cost of a training run, without running it.

    Bounds, not promises: the fastest step hides all communication that can be hidden, the slowest hides none. Exits
    with 1 where the model does not fit into the GPU's memory.
    """
    from raybench.performance_model.estimate import estimate  # not needed for --help
    from raybench.performance_model.estimate_report import estimate_lines, estimate_report

    result = estimate(_request(options))
    report = estimate_report(result)
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(report.to_json(), indent=2))
        else:
            click.echo("\n".join(estimate_lines(result)))
    sys.exit(report.exit_code)


def _request(options: Mapping[str, Any]) -> "EstimateRequest":
    from raybench.performance_model.estimate import EstimateRequest, assumed_efficiency
    from raybench.performance_model.layout import Layout

    machine = machine_of(options)
    given_ranks = _at_least_one(options["gpus_per_node"], "--gpus-per-node")
    ranks_per_node = given_ranks or (machine.node.gpus if machine.node else 8)
    _at_least_one(options["accumulation"], "--accumulation")
    layout = Layout(world_size=options["world_size"], ranks_per_node=ranks_per_node)
    model = _model(options)
    given = options["efficiency"]
    network, why_unknown = _network(options, machine, layout)
    return EstimateRequest(
        model=model,
        setup=_setup(options, model),
        layout=layout,
        network=network,
        network_unknown=why_unknown,
        dtype=options["dtype"],
        reduce_bytes=_BYTES[options["reduce_dtype"]],
        accumulation=options["accumulation"],
        gpu=machine.gpu,
        memory_bytes=_memory(options, machine.gpu),
        efficiency=_efficiency(given) if given else assumed_efficiency(machine.gpu),
        efficiency_source="given" if given else "assumed, not known; give --efficiency",
        price=_price(options),
        epoch_samples=_at_least_one(options["epoch_samples"], "--epoch-samples"),
        basis=machine.basis,
    )


def _network(options: Mapping[str, Any], machine: "Machine", layout: "Layout") -> tuple["Network | None", str | None]:
    """The network, or why nothing that takes its time can be estimated: volumes and memory can be all the same."""
    from raybench.performance_model.layout import UnknownLinksError

    try:
        return network_of(options, machine, layout), None
    except UnknownLinksError as error:
        return None, str(error)


def _model(options: Mapping[str, Any]) -> "Transformer":
    from raybench.performance_model.transformer import preset_named

    model = preset_named(options["model_name"])
    names = ("layers", "hidden", "heads", "kv_heads", "feedforward", "vocabulary")
    changes = {name: value for name in names if (value := _at_least_one(options[name], f"--{name.replace('_', '-')}"))}
    return model.resized(**changes) if changes else model


def _targets(text: str | None) -> tuple[str, ...]:
    """Names of linear layers; none given: all of them."""
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"--lora-targets '{text}' has an empty part; write names such as q_proj,v_proj")
    return names


def _setup(options: Mapping[str, Any], model: "Transformer") -> Any:
    from raybench.performance_model.training_setup import TrainingSetup

    length = options["sequence_length"]
    if length is not None and 0 < model.positions < length:
        raise UsageError(
            f"--sequence-length is {length}, and {options['model_name']} has a table of {model.positions} positions; "
            "take a shorter one, or a model with rotary positions such as llama"
        )
    return TrainingSetup(
        batch_size=options["batch_size"],
        sequence_length=min(model.context, 4096) if length is None else length,
        strategy=options["strategy"],
        optimizer=options["optimizer"],
        parameter_bytes=_BYTES[options["parameter_dtype"]],
        compute_bytes=_BYTES[options["dtype"]],
        checkpointing=options["activation_checkpointing"],
        flash_attention=not options["no_flash_attention"],
        bucket_view=options["bucket_view"],
        gradients_kept=options["strategy"] == "ddp" and options["world_size"] > 1,
        whole_gradients=options["accumulation"] > 1 and not options["reduce_each"],
        lora_rank=options["lora_rank"],
        lora_targets=_targets(options["lora_targets"]),
        quantized=options["qlora"],
    )


def _memory(options: Mapping[str, Any], gpu: "Gpu | None") -> int | None:
    from raybench.units import parse_amount

    if options["memory"]:
        return parse_amount("--memory", options["memory"], "64M")
    return gpu.memory_bytes if gpu else None


def _efficiency(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high or low)
    except ValueError:
        raise UsageError(f"--efficiency '{text}' is not LOW:HIGH, such as 0.35:0.45") from None


def _price(options: Mapping[str, Any]) -> "Price | None":
    from raybench.performance_model.cost import Price, list_price

    if options["price"] is not None:
        return Price(per_node_hour=options["price"], source="given", currency=options["currency"])
    if options["prices"] and not options["node_type"]:
        raise UsageError("--prices needs --node-type: the name of a line in it")
    return list_price(options["node_type"], _prices(options["prices"])) if options["node_type"] else None


def _prices(path: str | None) -> str | None:
    try:
        return None if path is None else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--prices {path} cannot be read: {error}") from error


def _at_least_one(value: int | None, name: str) -> int | None:
    if value is not None and not 1 <= value <= _MOST:
        raise UsageError(f"{name} is {value}; it must be at least 1 and at most {_MOST}")
    return value
