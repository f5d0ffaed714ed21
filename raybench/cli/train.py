"""``raybench train``."""

import sys
from collections.abc import Iterator
from typing import Any

import click
from click.core import ParameterSource

from raybench.cli.cluster_options import PLACE_OPTIONS, RUN_OPTIONS, given, with_options
from raybench.cli.measure import measure
from raybench.cli.usage.command import TopicCommand

_NOT_BELOW_NSYS = frozenset(
    ["nsys_command", "nodes", "gpus_per_node", "address", "profile", "overlap_steps", "keep_warm"]
)
EXAMPLES = """\b
Examples:
  raybench train --nodes 2                        DDP of a tiny transformer on two emulated nodes
  raybench train --strategy ddp,fsdp --model llama-8b --batch-size 2 --sequence-length 8192 --dtype bf16
  raybench train --model mlp --hidden-dims 64,32,16 --batch-size 32 --steps 100 --repeats 5
  raybench train --model mlp --data spiral --steps 300 --lr-schedule cosine   learns: validation loss
  raybench train --data corpus.jsonl --data-workers 2 --steps 500 --clip-grad-norm 1
  raybench train --weights /models/gpt2 --tokenizer /models/gpt2 --data corpus.txt     the model's own loss of a text
  raybench train --strategy qlora --model mistral-7b --sequence-length 512 --profile
  raybench train --model gpt2 --gpus-per-node 8 --nsys-command    lines to paste for Nsight Systems
  raybench train --strategy lora --adapter peft --model llama-8b --weights /models/llama-8b
  raybench train --strategy lora --model llama-8b --lora-rank 8 --lora-targets q_proj,v_proj
  raybench train --strategy fsdp --sharding hybrid --nodes 4 --address head:6379 --json > result.json
"""

_OPTIONS: list[Any] = [
    click.option("--strategy", metavar="NAME,...", help="ddp, fsdp, lora, qlora.  [default: ddp]"),
    click.option("-m", "--model", metavar="NAME", help="mlp, cnn, or a transformer: tiny, small, gpt2, llama-1b, "
                 "llama-8b, mistral-7b, llama-70b, ...; or the config.json of a Hugging Face model, or its folder.  "
                 "[default: tiny]"),
    click.option("--hidden-dims", metavar="W,W,...", help="Widths of the mlp.  [default: 64,32,16]"),
    click.option("--layers", type=int, metavar="N", help="Another number of layers than the model's."),
    click.option("--hidden-size", type=int, metavar="N", help="Another hidden size."),
    click.option("--heads", type=int, metavar="N", help="Another number of attention heads."),
    click.option("--kv-heads", type=int, metavar="N", help="Another number of key and value heads."),
    click.option("--intermediate-size", type=int, metavar="N", help="Another width of the feed-forward layers."),
    click.option("--vocabulary", type=int, metavar="N", help="Another number of tokens."),
    click.option("--weights", metavar="DIR", help="Folder on every node with *.safetensors of the model; "
                 "its config.json is the model where none is named.  [default: random weights]"),
    click.option("--batch-size", type=int, metavar="N", help="Samples a rank and micro-batch.  [default: 8]"),
    click.option("--sequence-length", type=int, metavar="N", help="Tokens a sample.  [default: the model's, at most "
                 "2048]"),
    click.option("-d", "--dtype", metavar="TYPE", help="bf16, fp16, fp32 or fp8.  [default: bf16 on a GPU that has it, "
                 "else fp32]"),
    click.option("--optimizer", metavar="NAME", help="adamw, adam or sgd.  [default: adamw]"),
    click.option("--learning-rate", type=float, metavar="X", help="[default: 0.001]"),
    click.option("--gradient-accumulation-steps", "--accumulate", "accumulate", type=int, metavar="N",
                 help="Micro-batches a step; gradients are synchronised in the "
                 "last, but with --reduce-each.  [default: 1]"),
    click.option("--activation-checkpointing", "--checkpoint-activations", "checkpoint_activations",
                 is_flag=True, default=None, help="Compute activations again in the "
                 "backward pass instead of keeping them."),
    click.option("--compile", is_flag=True, default=None, help="torch.compile the model."),
    click.option("--sharding", metavar="KIND", help="Of fsdp: full; grad-op keeps gathered parameters until the "
                 "backward pass; hybrid shards within a node.  [default: full]"),
    click.option("--reduce-each/--reduce-last", default=None, help="Of fsdp with --gradient-accumulation-steps: "
                 "reduce gradients in each micro-batch, as plan and estimate assume, or add them up whole and reduce "
                 "them in the last: less is sent, more is held.  [default: last]"),
    click.option("--bucket-mib", type=int, metavar="N", help="Gradients that ddp sends together.  [default: 25]"),
    click.option("--comm-hook", metavar="NAME", help="What gradients are sent as: none (as they are), fp16, bf16, or "
                 "powersgd (of a low rank; not of fsdp). All but none are less exact.  [default: none]"),
    click.option("--powersgd-rank", type=int, metavar="N", help="Of --comm-hook powersgd.  [default: 1]"),
    click.option("--lora-rank", type=int, metavar="N", help="[default: 16]"),
    click.option("--lora-alpha", type=float, metavar="X", help="[default: 32]"),
    click.option("--lora-targets", metavar="NAME,...", help="Linear layers that get an adapter, such as q_proj,v_proj. "
                 " [default: every one]"),
    click.option("--adapter", metavar="own|peft", help="Of lora and qlora: raybench's own, or peft's (its 4-bit base "
                 "by bitsandbytes), which every node must have.  [default: own]"),
    click.option("-n", "--steps", type=int, metavar="N", help="Timed steps.  [default: 20]"),
    click.option("-w", "--warmup-steps", type=int, metavar="N", help="Steps before them.  [default: 5]"),
    click.option("--overlap-steps", type=int, metavar="N", help="Pairs of steps with and without synchronisation, for "
                 "the exposed communication; 0 leaves it out.  [default: 10]"),
    click.option("--profile", is_flag=True, default=None, help="Keep a trace of each rank for Perfetto or TensorBoard "
                 "in logs/, and say how each rank's steps divide."),
    click.option("--nsys-command", is_flag=True, help="Print command lines that run these ranks below Nsight Systems, "
                 "with the phases as NVTX ranges, for torchrun, srun and mpirun; nothing is run."),
    click.option("--data", metavar="NAME|PATH", help="spiral (of the mlp) or text, made on the spot; or a file or "
                 "folder of text, JSON lines, parquet or Arrow (a data set of 'datasets') on every node, read byte by "
                 "byte.  [default: random]"),
    click.option("--tokenizer", metavar="PATH", help="A tokenizer.json, or its folder, on every node: text as its "
                 "tokens. Needs the library tokenizers.  [default: bytes]"),
    click.option("--data-workers", type=int, metavar="N", help="Processes a rank that load data ahead.  [default: 0]"),
    click.option("--validation-share", type=float, metavar="X", help="Of the data, held out.  [default: 0.1]"),
    click.option("--eval-every", type=int, metavar="N", help="Timed steps from one evaluation of the held-out data to "
                 "the next; 0: none.  [default: a tenth of --steps]"),
    click.option("--lr-schedule", metavar="NAME", help="constant, cosine or linear, down to 0.  [default: constant]"),
    click.option("--lr-warmup-steps", type=int, metavar="N", help="Steps in which the learning rate rises, from the "
                 "first warm-up step on.  [default: 0]"),
    click.option("--clip-grad-norm", type=float, metavar="X", help="The largest norm of all gradients together.  "
                 "[default: not clipped]"),
    click.option("--seed", type=int, metavar="N", help="Of weights and data.  [default: 0]"),
]  # fmt: skip


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.pass_context
@with_options([*PLACE_OPTIONS, *_OPTIONS, *RUN_OPTIONS])
def command(  # noqa: PLR0917 - click's
    context: click.Context,
    /,
    config_file: str | None,
    as_json: bool,
    full: bool,
    quiet: bool,
    dry_run: bool,
    strategy: str | None,
    nsys_command: bool,
    **options: Any,
) -> None:
    """Train a model on random data, or on what it can learn, and say what of a step waits for the network.

    The first steps are checked against one process that computes the whole batch. Without a cluster to join, one is
    embedded on this machine: real ranks, EMULATED machines. Writes DIR/RUN_ID as 'raybench run' does.
    """
    from raybench.services.run_config import training_config

    config = training_config(config_file, given(options), strategy)
    if nsys_command:
        _print_nsys(context, config.nodes, config.gpus_per_node)
        return
    sys.exit(measure(config, as_json=as_json, full=full, quiet=quiet, dry_run=dry_run))


def _print_nsys(context: click.Context, nodes: int | None, gpus_per_node: int | None) -> None:
    """What was typed, below Nsight Systems. The options are right by now."""
    from raybench.services.launching.nsys import nsight_lines

    for launcher, line in nsight_lines(["train", *_typed(context), "--overlap-steps", "0"], nodes, gpus_per_node):
        click.echo(f"# {launcher}\n{line}")


def _typed(context: click.Context) -> Iterator[str]:
    """The options that were typed, but for those that a launcher decides or a profiler has no use of."""
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        source = context.get_parameter_source(name)
        if source is not ParameterSource.COMMANDLINE or name in _NOT_BELOW_NSYS:
            continue
        if isinstance(value, bool):
            yield (parameter.opts if value else parameter.secondary_opts)[0]
        else:
            for one in value if isinstance(value, tuple) else (value,):
                yield from (parameter.opts[0], str(one))
