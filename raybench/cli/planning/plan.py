"""``raybench plan``: what fits, how long, what it costs, and how to start the best of it."""

import json
import re
import sys
from typing import Any

import click

from raybench.cli.cluster_options import with_options
from raybench.cli.output import printing
from raybench.cli.planning.command import PlanningCommand
from raybench.cli.planning.measured import MEASURED_OPTION, measured_runs
from raybench.cli.planning.options import KERNEL_OPTIONS, MACHINE_OPTIONS, PRICE_OPTIONS, WORKLOAD_OPTIONS
from raybench.errors import UsageError

EXAMPLES = """\b
Examples:
  raybench plan llama-8b --nodes 4 --node-type p5.48xlarge --tokens 2T --deadline 60d
  raybench plan Qwen/Qwen2.5-32B --nodes 4 --node-type p5.48xlarge --samples 100000 --epochs 3 --budget 5000
  raybench plan mistral-7b --method qlora --gpus-per-node 1 --gpu A10 --sequence-length 2048 --samples 10000
  raybench plan llama-70b --nodes 8 --gpu H100 --nics 8 --nic-gbit 400 --kernels fused --loss chunked --json
"""
_COUNT = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_NUMBER = r"(\d{1,15}(?:\.\d{1,6})?(?:e\+?\d{1,2})?)([KMBT]?)"
_SECONDS = {"m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}


def _count(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """``2T``, ``15B``, ``100000``."""
    if text is None:
        return None
    found = re.fullmatch(_NUMBER, text.strip(), re.IGNORECASE)
    if not found:
        raise UsageError(f"--{parameter.name} is '{text}'; write a number such as 2T, 15B, 3e8 or 100000")
    return round(float(found[1]) * _COUNT[found[2].upper()])


def _amount(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """``5000``, ``250K``, ``1.5M``."""
    if text is None:
        return None
    found = re.fullmatch(_NUMBER, text.strip(), re.IGNORECASE)
    if not found or not float(found[1]):
        raise UsageError(f"--{parameter.name} is '{text}'; write an amount of money such as 5000, 250K or 1.5M")
    return float(found[1]) * _COUNT[found[2].upper()]


def duration_of(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Seconds of a --deadline. Raises UsageError."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)(m|min|h|d|w)", text.strip().lower())
    if not found or not float(found[1]):
        raise UsageError(f"--deadline is '{text}'; write a duration such as 90m, 48h, 30d or 6w")
    return float(found[1]) * _SECONDS[found[2]]


def _rank(_: click.Context, __: click.Parameter, rank: int | None) -> int:
    """0 where none is given. Raises UsageError for a 0 that is: adapters of no rank are none."""
    if rank is not None and rank < 1:
        raise UsageError(f"--lora-rank is {rank}; it must be at least 1, or left out")
    return rank or 0


def _method(method: str | None, *, qlora: bool | None, has_rank: bool) -> str:
    """The method by its name, or by the options that estimate says it with. Raises UsageError for two of them."""
    if qlora is False and method == "qlora":
        raise UsageError("--no-qlora is any method but qlora, and --method is qlora; give one of them")
    if qlora and method not in (None, "qlora"):
        raise UsageError(f"--qlora is --method qlora, and --method is {method}; give one of them")
    return "qlora" if qlora else method or ("lora" if has_rank else "full")


_OPTIONS: list[Any] = [
    click.option("--nodes", type=int, default=1, show_default=True, help="Nodes to train on."),
    *MACHINE_OPTIONS,
    click.option("--gpus-per-node", type=int, help="GPUs a node.  [default: the node type's, else 8]"),
    click.option("--result", "result_file", metavar="FILE", multiple=True, help="result.json of an earlier raybench "
                 "run, train or memory, repeatable: an all_reduce gives bandwidth and latency (other options win); "
                 "a train or memory of one of the ways takes the estimate's place, a train of another setting "
                 "corrects all of them."),
    MEASURED_OPTION,
    click.option("--vocabulary", type=int, help="Another vocabulary, such as a padded one."),
    click.option("--program", metavar="NAME[==RELEASE]", help="Which program is to train: torchtitan, "
                 "megatron-lm, transformers, ...; an unknown one lists all. Of an older release as pip has it, such as "
                 "transformers==4.35. What it has not is not tried, and what it decides is taken as it has "
                 "it."),
    click.option("--method", type=click.Choice(["full", "lora", "qlora"]), help="Train all parameters, adapters, or "
                 "adapters over a 4-bit base.  [default: full; lora with --lora-rank]"),
    click.option("--qlora/--no-qlora", default=None, help="The same as --method qlora."),
    click.option("--lora-rank", callback=_rank, type=int, help="Of lora and qlora.  [default: 16]"),
    click.option("--lora-targets", metavar="NAME,...", help="q_proj, v_proj, ...  [default: every linear layer]"),
    click.option("--lora-dropout/--no-lora-dropout", default=None, help="Dropout of adapters' inputs; its masks "
                 "are kept.  [default: the program's; without one trl's, which has it]"),
    click.option("--base-dtype", type=click.Choice(["fp32", "bf16", "fp16", "nf4", "int8"]), help="Of the frozen base "
                 "of lora; fp32: as transformers loads it unless it is told a type; int8: as bitsandbytes loads it in "
                 "8 bits.  [default: the program's, else that of the computation; nf4 with qlora]"),
    *WORKLOAD_OPTIONS,
    click.option("--samples-per-step", type=int, help="Of all ranks together.  [default: about a million tokens; of "
                 "--samples no more than 128, or a thousandth of them; with adapters 64]"),
    click.option("--tokens", callback=_count, metavar="N", help="Of the whole training: 2T, 15B, 300M."),
    click.option("--samples", callback=_count, metavar="N", help="Of an epoch, each of --sequence-length tokens, or of "
                 "--mean-tokens."),
    click.option("--mean-tokens", type=int, metavar="N", help="Mean tokens of a sample, where --samples are packed to "
                 "--sequence-length; padded ones (--masked-attention) take all of it."),
    click.option("--epochs", type=click.FloatRange(0, min_open=True), default=1.0, show_default=True,
                 help="Over --samples."),
    click.option("--deadline", "deadline_seconds", callback=duration_of, metavar="TIME", help="48h, 30d; ends with 1 "
                 "where it is missed."),
    click.option("--budget", callback=_amount, metavar="AMOUNT", help="In the price's currency: 5000, 1.5M; ends with "
                 "1 where it is missed."),
    *PRICE_OPTIONS,
    click.option("--optimizer", default="adamw", show_default=True, metavar="sgd|momentum|adam|adamw|adamw-8bit",
                 help="For the memory of its state."),
    click.option("--parameter-dtype", type=click.Choice(["fp32", "bf16"]), help="Type in which parameters are stored "
                 "and updated: of the master weights.  [default: the program's, else fp32]"),
    click.option("--optimizer-dtype", type=click.Choice(["fp32", "bf16"]), help="Type of the optimizer's moments.  "
                 "[default: the parameters']"),
    click.option("--recompute-modules", metavar="NAME,...", help="What ways by Megatron-LM compute again of each block "
                 "where all of it need not be: core_attn, layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts."),
    click.option("--dropout/--no-dropout", default=None, help="Dropout of what attention and the MLP give (or its "
                 "rate, --dropout 0.1); its masks are kept.  [default: as the model's config.json has it, which "
                 "Megatron-LM is told; a preset drops nothing]"),
    *KERNEL_OPTIONS,
    click.option("--compile/--no-compile", default=None, help="Whether torch.compile fuses what is not a matrix "
                 "product.  [default: as what is printed has it: on with torchtitan, off with adapters; else unknown]"),
    click.option("--masked-attention/--no-masked-attention", default=None, help="Attention that is given a mask, as "
                 "transformers' sdpa is with padded samples (not with packing or flash_attention_2): slower.  "
                 "[default: with adapters none, as trl is told to pack samples; else unknown]"),
    click.option("--full", is_flag=True, help="On the terminal: all ways and ways to start, not one screen."),
    click.option("--json", "as_json", is_flag=True, help="JSON (raybench.training-plan/1) instead of text."),
]  # fmt: skip
_OF_PLAN = ("nodes", "method", "samples_per_step", "tokens", "samples", "epochs", "deadline_seconds", "budget")


@click.command(cls=PlanningCommand, epilog=EXAMPLES)
@click.argument("model", metavar="MODEL")
@with_options(_OPTIONS)
def command(
    model: str, as_json: bool, full: bool, qlora: bool | None, measured: tuple[str, ...], **options: Any
) -> None:
    """Plan a training: what fits, how fast, how long, what it costs, and how to start the best of it.

    MODEL is a name such as llama-8b or mixtral-8x7b, the config.json of a Hugging Face model, its folder, or
    package.module:factory of a torch.nn.Module. Tries DDP, ZeRO and FSDP in all forms, and models cut by tensor,
    context, pipeline and expert, with activations kept, computed again, and in part where torchtitan has the model
    (selective) or Megatron-LM cuts it (half of the blocks), each with the largest micro-batch that fits. Bounds, not
    promises: nothing is measured, but by the runs that --result names.
    Exits with 1 where nothing fits or a goal is missed, 3 where that is open.
    """
    from raybench.cli.estimate import command as estimate
    from raybench.services.estimating.options import EstimateOptions
    from raybench.services.planning.options import PlanOptions
    from raybench.services.planning.plan import training_plan

    own = {name: options.pop(name) for name in _OF_PLAN}
    own["method"] = _method(own["method"], qlora=qlora, has_rank=bool(options["lora_rank"]))
    machine = EstimateOptions(model=model, **options, measured=measured_runs(measured, estimate) if measured else ())
    plan = training_plan(PlanOptions(machine=machine, **own))
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(plan.to_json(), indent=2))
        else:
            from raybench.reports.terminal.report import print_document

            print_document(plan, sys.stdout, full=full)
    sys.exit(plan.exit_code)
