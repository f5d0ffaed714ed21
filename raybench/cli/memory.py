"""``raybench memory``."""

import re
import sys
from typing import Any

import click

from raybench.cli.cluster_options import PLACE_OPTIONS, RUN_OPTIONS, given, with_options
from raybench.cli.measure import measure
from raybench.cli.usage.command import TopicCommand
from raybench.errors import UsageError

EXAMPLES = """\b
Examples:
  raybench memory --model llama-1b --batch-sizes 1,2,4 --dtype bf16
  raybench memory --model mistral-7b --strategy qlora --sequence-length 512
  raybench memory --model llama-70b --strategy fsdp --shards 64 --batch-sizes 1,2 --activation-checkpointing
  raybench memory --model small --memory-limit 512M --json > result.json
"""

_OPTIONS: list[Any] = [
    click.option("-m", "--model", metavar="NAME", help="As for 'raybench train'.  [default: small]"),
    click.option("--strategy", metavar="NAME", help="single (as a DDP rank without its buckets), fsdp, lora or "
                 "qlora.  [default: single]"),
    click.option("--shards", type=int, metavar="N", help="Ranks over which fsdp spreads the model, whether they are "
                 "here or not.  [default: those of the run]"),
    click.option("--sharding", metavar="KIND", help="Of fsdp: full or grad-op.  [default: full]"),
    click.option("--batch-sizes", metavar="N,N,...", help="Measured each.  [default: 1,2,4,8]"),
    click.option("--sequence-length", type=int, metavar="N", help="Tokens a sample.  [default: the model's, at most "
                 "2048]"),
    click.option("-d", "--dtype", metavar="TYPE", help="bfloat16, float16, float32 or float8.  [default: bfloat16 on a "
                 "GPU that has it, else float32]"),
    click.option("--optimizer", metavar="NAME", help="adamw, adam or sgd.  [default: adamw]"),
    click.option("--activation-checkpointing", "--checkpoint-activations", "checkpoint_activations",
                 is_flag=True, default=None, help="Compute activations again in the "
                 "backward pass."),
    click.option("--memory-limit", "--limit", "limit", metavar="SIZE",
                 help="Memory it may take.  [default: what is free]"),
    click.option("--most-batch", type=int, metavar="N", help="Where the search ends.  [default: 4096, on a CPU 8]"),
    click.option("--trial-timeout", "--limit-seconds", "limit_seconds", type=float, metavar="S",
                 help="Time limit of one trial.  [default: 300]"),
]  # fmt: skip


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@with_options([*PLACE_OPTIONS, *_OPTIONS, *RUN_OPTIONS])
def command(config_file: str | None, as_json: bool, full: bool, quiet: bool, dry_run: bool, **options: Any) -> None:
    """Measure what training takes of a rank's memory, by batch size, and find the largest batch that fits.

    Writes DIR/RUN_ID as 'raybench run' does.
    """
    from raybench.services.run_config import workload_config

    chosen = given(options)
    if "batch_sizes" in chosen:
        chosen["batch_sizes"] = sizes_of(chosen["batch_sizes"])
    config = workload_config("memory", config_file, chosen)
    sys.exit(measure(config, as_json=as_json, full=full, quiet=quiet, dry_run=dry_run))


def sizes_of(text: str) -> tuple[int, ...]:
    """Batch sizes of a comma list. Raises UsageError for anything else."""
    if not re.fullmatch(r"\s*[0-9]{1,9}(\s*,\s*[0-9]{1,9})*\s*", text):
        raise UsageError(f"--batch-sizes '{text}' is not a list of numbers, such as 1,2,4")
    return tuple(int(part) for part in text.split(","))
