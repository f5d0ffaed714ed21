"""``raybench study``: several runs, one question."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.cluster_options import with_options
from raybench.cli.output import announce, echo_json, printing, say
from raybench.cli.study_options import PRICE_OPTIONS, PrintOptions, study_command
from raybench.cli.usage.command import TopicCommand, TopicGroup

if TYPE_CHECKING:
    import threading

    from raybench.documents.study.plan import Study, Trial
    from raybench.documents.study.trial import TrialResult
    from raybench.services.study import FinishedStudy
    from raybench.services.study_options import StudyOptions

EXAMPLES = """\b
Examples:
  raybench study network --networks tcp,rdma-no-gdr,rdma --model llama-8b --strategy fsdp
  raybench study scaling --nodes 1,2,4,8 --price 55.04 -- train --model gpt2-xl
  raybench study show studies/scaling-20261121-014502-3f9a
"""
_NETWORK_EXAMPLES = """\b
Examples:
  raybench study network --networks tcp,rdma-no-gdr,rdma --model llama-8b --strategy fsdp
  raybench study network --networks slow=eth0,fast=eth1 --address head:6379 -- run --suite all_reduce --sizes 16M
  raybench study network --resume studies/network-20261121-014502-3f9a --repeats 10

A NAME=INTERFACE is TCP over that interface of every node. What each run used is proved from its NCCL logs and from the
bytes that the nodes' devices sent; a network that is not what its name says is refused (exit code 1).
"""
_SCALING_EXAMPLES = """\b
Examples:
  raybench study scaling --nodes 1,2,4,8 --address head:6379 --model gpt2-xl --strategy ddp
  raybench study scaling --nodes 1,2,4 --mode strong --batch-size 32 --price 55.04 --model llama-8b

Strong scaling keeps the global batch, weak scaling that of a rank.
"""
_STRATEGY_EXAMPLES = """\b
Examples:
  raybench study strategy --strategies ddp,fsdp,fsdp-grad-op --nodes 4 --model llama-8b --batch-size 2
  raybench study strategy --strategies lora,qlora -- train --model mistral-7b
"""
_COMMUNICATION_EXAMPLES = """\b
Examples:
  raybench study communication --nodes 4 --model gpt2-xl                    none, fp16, bf16 and powersgd
  raybench study communication --bucket-sizes 25,5,100 --nodes 4 --model gpt2-xl
  raybench study communication --algorithms ring,tree --address head:6379 --model llama-1b --strategy ddp

The first variant is what the others are compared with, and is what to use unless another is faster for certain. The
last loss of each is beside it: what sends less is less exact.
"""
_PRECISION_EXAMPLES = """\b
Examples:
  raybench study precision --nodes 4 --model gpt2-xl --data text
  raybench study precision --dtypes fp32,bf16 --model mlp --data spiral --steps 100
"""
_BATCH_EXAMPLES = """\b
Examples:
  raybench study batch-size --batch-sizes 1,2,4,8,16 --nodes 4 --model gpt2-xl
"""
_MODEL_EXAMPLES = """\b
Examples:
  raybench study model-size --models gpt2,gpt2-xl,llama-8b --nodes 4 --strategy fsdp
  raybench study model-size --models mlp-64x2,mlp-64x4,mlp-256x2 -- train --data spiral --steps 100
"""


@click.group(cls=TopicGroup, epilog=EXAMPLES)
def command() -> None:
    """Compare configurations by many runs in an order that drift cannot favour, and say what is certain.

    Each trial is a raybench command of its own with a folder of its own, so that a study that was stopped goes on
    (--resume), and every figure can be looked into. What a study does not know it hands to its workload:
    'raybench train', or the command that follows '--'.
    """


@study_command(
    "network",
    click.option("--networks", metavar="NAME,...", help="tcp, rdma-no-gdr, rdma, or NAME=INTERFACE; the first is what "
                 "the others are compared with.  [default: tcp,rdma-no-gdr,rdma]"),
    epilog=_NETWORK_EXAMPLES,
)  # fmt: skip
def network(options: "StudyOptions", shown: PrintOptions) -> None:
    """Is the faster network worth it? One workload over each, each run's network proved."""
    _conduct(options, shown)


@study_command(
    "scaling",
    click.option("--nodes", metavar="N,...", help="Numbers of nodes, such as 1,2,4,8; the fewest are the baseline.  "
                 "[default: 1,2,4]"),
    click.option("--mode", type=click.Choice(["strong", "weak", "both"]), help="[default: both]"),
    click.option("--batch-size", type=int, metavar="B", help="Samples a rank on the fewest nodes.  [default: 8, or "
                 "what strong scaling can divide]"),
    epilog=_SCALING_EXAMPLES,
)  # fmt: skip
def scaling(options: "StudyOptions", shown: PrintOptions) -> None:
    """What do more nodes bring? Speedup, efficiency, fits, projection, cost."""
    _conduct(options, shown)


@study_command(
    "strategy",
    click.option("--strategies", metavar="NAME,...", help="ddp, fsdp, fsdp-grad-op, fsdp-hybrid, lora, qlora.  "
                 "[default: ddp,fsdp]"),
    epilog=_STRATEGY_EXAMPLES,
)  # fmt: skip
def strategy(options: "StudyOptions", shown: PrintOptions) -> None:
    """Which strategy to train with? Throughput against the memory of each, and why."""
    _conduct(options, shown)


@study_command(
    "communication",
    click.option("--comm-hooks", metavar="NAME,...", help="What gradients are sent as: none, fp16, bf16, powersgd.  "
                 "[default: all, where nothing else is compared]"),
    click.option("--bucket-sizes", metavar="MIB,...", help="Gradients that ddp sends together, such as 25,5,100."),
    click.option("--buffer-sizes", metavar="SIZE,...", help="Of NCCL's buffers (NCCL_BUFFSIZE), such as 4M,8M,16M."),
    click.option("--algorithms", metavar="NAME,...", help="Of NCCL's all_reduce (2.24 or later): ring, tree."),
    epilog=_COMMUNICATION_EXAMPLES,
)  # fmt: skip
def communication(options: "StudyOptions", shown: PrintOptions) -> None:
    """How to send gradients? Compression, buckets, ring against tree: speed and loss."""
    _conduct(options, shown)


@study_command(
    "precision",
    click.option("--dtypes", metavar="TYPE,...", help="fp32, bf16, fp16, fp8; the first is what the others are "
                 "compared with.  [default: fp32,bf16,fp16]"),
    epilog=_PRECISION_EXAMPLES,
)  # fmt: skip
def precision(options: "StudyOptions", shown: PrintOptions) -> None:
    """In which type to compute? Speed, memory, and the loss that each reaches."""
    _conduct(options, shown)


@study_command(
    "batch-size",
    click.option("--batch-sizes", metavar="B,...", help="Samples a rank.  [default: 1,2,4,8,16]"),
    epilog=_BATCH_EXAMPLES,
)
def batch_size_study(options: "StudyOptions", shown: PrintOptions) -> None:
    """How do throughput and memory grow with the batch, and where does more stop to help?"""
    _conduct(options, shown)


@study_command(
    "model-size",
    click.option(
        "--models",
        metavar="NAME,...",
        help="Models of 'raybench train', such as gpt2,llama-8b; mlp-64x3 is an mlp of width 64 and depth 3.",
    ),
    epilog=_MODEL_EXAMPLES,
)
def model_size(options: "StudyOptions", shown: PrintOptions) -> None:
    """How do throughput and memory change with the model?"""
    _conduct(options, shown)


@click.command(
    "show", cls=TopicCommand, short_help="Show a study again, complete or not, from the folders of its trials."
)
@click.argument("folder", metavar="DIR")
@with_options(PRICE_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="Print study.json on standard output instead of tables.")
@click.option("--full", is_flag=True, help="Print every table; they are in the report in any case.")
def show(folder: str, as_json: bool, full: bool, **given: Any) -> None:
    """Show a study again, complete or not, from the folders of its trials; with a price that was not given before."""
    from raybench.services.study import show_study
    from raybench.services.study_options import Pricing

    sys.exit(_show(show_study(Path(folder), Pricing(**given)), as_json=as_json, full=full))


for _member in (network, scaling, strategy, communication, precision, batch_size_study, model_size, show):
    command.add_command(_member)


def _conduct(options: "StudyOptions", shown: PrintOptions) -> None:
    """Do the study, show the answer, and end with its exit code."""
    from raybench.processes.interrupt import Interrupt
    from raybench.services.study import conduct

    with Interrupt().installed() as interrupt:
        finished = conduct(
            options,
            interrupt=interrupt,
            progress=lambda study: _Progress(study, interrupt.event, quiet=shown.quiet),
            planned=lambda study: announce(f"checking what {len(study.variants)} variants need", quiet=shown.quiet),
        )
    sys.exit(_show(finished, as_json=shown.as_json, full=shown.full))


class _Progress:
    """Progress on standard error; what went wrong is said even where progress is not wanted."""

    def __init__(self, study: "Study", stopping: "threading.Event", *, quiet: bool) -> None:
        from raybench.reports.study.progress import StudyDisplay

        self._study, self._stopping = study, stopping
        self._total = len(study.trials())
        self._display = None if quiet else StudyDisplay()
        if self._display:
            plan = f"{len(study.variants)} variants x {study.repeats} repeats" if study.repeats > 1 else "one repeat"
            self._display.start(self._total, f"study {study.kind}: {plan} of 'raybench {' '.join(study.workload)}'")

    def on_trial(self, trial: "Trial", outcome: "TrialResult | None", left_seconds: float | None) -> None:
        """Say which trial begins, or what was wrong with it."""
        if outcome is None and self._display:
            text = f"{trial.variant} (repeat {trial.block + 1} of {self._study.repeats})"
            self._display.begin_trial(trial.number, trial.folder, text, left_seconds)
        elif outcome is not None and outcome.status != "complete" and not self._stopping.is_set():
            said = f"trial {trial.folder} is {outcome.status}: {outcome.reason or 'no reason was given'}"
            if self._display:
                self._display.note(said)
            else:
                say(f"raybench: {said}")

    def close(self) -> None:
        """End the display."""
        if self._display:
            self._display.close()


def _show(finished: "FinishedStudy", *, as_json: bool, full: bool) -> int:
    """Print a study. Returns its exit code, which depends on none of the printing."""
    for remark in finished.remarks:
        say(f"raybench: {remark}")
    with printing("stdout", is_kept=finished.kept):  # last, so that the verdict is what stands above the prompt
        if as_json or not finished.kept:
            echo_json(finished.result.to_json())
        else:
            from raybench.reports.terminal.report import print_document, run_files

            page = finished.folder / "study.html"
            files = run_files(finished.folder, page if page.exists() else None, full=full)
            print_document(finished.result, sys.stdout, files=files, full=full)
    return finished.exit_code
