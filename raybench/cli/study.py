"""``raybench study``: several runs, one question."""

import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.cluster_options import with_options
from raybench.cli.output import announce, printing, say
from raybench.cli.study_options import (
    PRICE_OPTIONS,
    Pricing,
    StudyOptions,
    names_of,
    numbers_of,
    study_command,
)
from raybench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    import threading

    from raybench.documents.study.plan import Kind, Study, Trial, Variant
    from raybench.documents.study.result import StudyResult
    from raybench.documents.study.trial import TrialResult
    from raybench.services.study import FinishedStudy
    from raybench.studies.folder import StudyFolder

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
_BATCH_EXAMPLES = """\b
Examples:
  raybench study batch-size --batch-sizes 1,2,4,8,16 --nodes 4 --model gpt2-xl
"""
_MODEL_EXAMPLES = """\b
Examples:
  raybench study model-size --models gpt2,gpt2-xl,llama-8b --nodes 4 --strategy fsdp
"""


@click.group(epilog=EXAMPLES)
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
def network(options: StudyOptions, networks: str | None) -> None:
    """Is the faster network worth it? One workload over each, each run's network proved."""

    def variants() -> Sequence["Variant"]:
        from raybench.studies.network import network_variant

        names = names_of(networks, "--networks", "tcp,rdma-no-gdr,rdma")
        if len(names) < 2:
            raise UsageError(f"--networks {networks} has nothing to compare with; name two networks or more")
        return [network_variant(name) for name in names]

    _conduct("network", options, variants, planned={"networks": networks})


@study_command(
    "scaling",
    click.option("--nodes", metavar="N,...", help="Numbers of nodes, such as 1,2,4,8; the fewest are the baseline.  "
                 "[default: 1,2,4]"),
    click.option("--mode", type=click.Choice(["strong", "weak", "both"]), help="[default: both]"),
    click.option("--batch-size", type=int, metavar="B", help="Samples a rank on the fewest nodes.  [default: 8, or "
                 "what strong scaling can divide]"),
    epilog=_SCALING_EXAMPLES,
)  # fmt: skip
def scaling(options: StudyOptions, nodes: str | None, mode: str | None, batch_size: int | None) -> None:
    """What do more nodes bring? Speedup, efficiency, fits, projection, cost."""

    def variants() -> Sequence["Variant"]:
        from raybench.studies.scaling import MODES, scaling_variants

        modes = [one for one in MODES if mode in (None, "both", one)]
        return scaling_variants(numbers_of(nodes, "--nodes", "1,2,4"), modes, batch_size)

    planned = {"nodes": nodes, "mode": mode, "batch_size": batch_size}
    _conduct("scaling", options, variants, planned=planned)


@study_command(
    "strategy",
    click.option("--strategies", metavar="NAME,...", help="ddp, fsdp, fsdp-grad-op, fsdp-hybrid, lora, qlora.  "
                 "[default: ddp,fsdp]"),
    epilog=_STRATEGY_EXAMPLES,
)  # fmt: skip
def strategy(options: StudyOptions, strategies: str | None) -> None:
    """Which strategy to train with? Throughput against the memory of each, and why."""

    def variants() -> Sequence["Variant"]:
        from raybench.studies.strategy import strategy_variant

        return [strategy_variant(one) for one in names_of(strategies, "--strategies", "ddp,fsdp")]

    _conduct("strategy", options, variants, planned={"strategies": strategies})


@study_command(
    "batch-size",
    click.option("--batch-sizes", metavar="B,...", help="Samples a rank.  [default: 1,2,4,8,16]"),
    epilog=_BATCH_EXAMPLES,
)
def batch_size_study(options: StudyOptions, batch_sizes: str | None) -> None:
    """How do throughput and memory grow with the batch, and where does more stop to help?"""

    def variants() -> Sequence["Variant"]:
        from raybench.studies.sweep import batch_variant

        return [batch_variant(one) for one in names_of(batch_sizes, "--batch-sizes", "1,2,4,8,16")]

    _conduct("batch-size", options, variants, planned={"batch_sizes": batch_sizes})


@study_command(
    "model-size",
    click.option("--models", metavar="NAME,...", help="Models of 'raybench train', such as gpt2,llama-8b."),
    epilog=_MODEL_EXAMPLES,
)
def model_size(options: StudyOptions, models: str | None) -> None:
    """How do throughput and memory change with the model?"""

    def variants() -> Sequence["Variant"]:
        from raybench.benchmarks.training.shapes import model_names
        from raybench.studies.sweep import model_variant

        if models is None:
            raise UsageError("say which models to compare, such as --models gpt2,gpt2-xl; or go on with --resume DIR")
        chosen = [model_variant(one) for one in names_of(models, "--models", "")]
        for variant in chosen:
            if variant.name.lower() not in model_names():
                raise unknown_name("model", variant.name, model_names())
        return chosen

    _conduct("model-size", options, variants, planned={"models": models})


@click.command("show", short_help="Show a study again, complete or not, from the folders of its trials.")
@click.argument("folder", metavar="DIR")
@with_options(PRICE_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="Print study.json on standard output instead of tables.")
@click.option("--full", is_flag=True, help="Print every table; they are in the report in any case.")
def show(folder: str, as_json: bool, full: bool, **given: Any) -> None:
    """Show a study again, complete or not, from the folders of its trials; with a price that was not given before."""
    from raybench.services.study import answer, with_epoch
    from raybench.studies.folder import StudyFolder

    pricing = Pricing(**given)
    price = pricing.price_of_node()
    opened = StudyFolder.open(Path(folder))
    study = with_epoch(opened.study(), pricing.epoch_samples)
    finished = answer(study, opened, opened.outcomes(study), price=price)
    sys.exit(_show(finished, as_json=as_json, full=full))


for _member in (network, scaling, strategy, batch_size_study, model_size, show):
    command.add_command(_member)


def _conduct(
    kind: "Kind",
    options: StudyOptions,
    variants: Callable[[], Sequence["Variant"]],
    *,
    planned: dict[str, Any],
) -> None:
    """Plan the study or take up an earlier one, do it, show the answer, and end with its exit code."""
    from raybench.processes.interrupt import Interrupt
    from raybench.services.study import answer, do_trials, take_up, with_epoch

    price = options.pricing.price_of_node()
    folder = _folder(kind, options, variants, planned)
    with folder.held():
        study = with_epoch(take_up(folder, kind, options.repeats), options.pricing.epoch_samples)
        with (
            Interrupt().installed() as interrupt,
            contextlib.closing(_Telling(study, interrupt.event, quiet=options.quiet)) as told,
        ):
            try:
                trials, stopped = do_trials(
                    study, folder, interrupt=interrupt, on_trial=told.tell, timeout_seconds=options.timeout
                )
            except UsageError:
                if options.resume is None:
                    folder.discard()
                raise
        finished = answer(study, folder, trials, price=price, stopped=stopped)
        sys.exit(_show(finished, as_json=options.as_json, full=options.full))


def _folder(
    kind: "Kind",
    options: StudyOptions,
    variants: Callable[[], Sequence["Variant"]],
    planned: dict[str, Any],
) -> "StudyFolder":
    """The folder of the study to go on with, or of a new one, whose variants have been checked."""
    from raybench.documents.study.plan import Settings
    from raybench.services.study import begin_study, plan_study
    from raybench.studies.folder import StudyFolder

    if options.resume is not None:
        options.require_nothing_planned(planned)
        return StudyFolder.open(Path(options.resume))
    study = plan_study(
        kind,
        variants(),
        options.workload,
        seed=options.chosen_seed,
        repeats=options.repeats,
        settings=Settings(price=options.pricing.price_of_node(), epoch_samples=options.pricing.epoch_samples),
    )
    announce(f"checking what {len(study.variants)} variants need", quiet=options.quiet)
    return begin_study(study, options.output_dir or "studies")


class _Telling:
    """Progress on standard error; what went wrong is said even where progress is not wanted."""

    def __init__(self, study: "Study", stopping: "threading.Event", *, quiet: bool) -> None:
        from raybench.reports.study.progress import StudyDisplay

        self._study, self._stopping = study, stopping
        self._total = len(study.trials())
        self._display = None if quiet else StudyDisplay()
        if self._display:
            plan = f"{len(study.variants)} variants x {study.repeats} repeats" if study.repeats > 1 else "one repeat"
            self._display.start(self._total, f"study {study.kind}: {plan} of 'raybench {' '.join(study.workload)}'")

    def tell(self, trial: "Trial", outcome: "TrialResult | None", left_seconds: float | None) -> None:
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
    with printing("stdout"):  # last, so that the verdict is what stands above the prompt
        if as_json or not finished.kept:
            _print_json(finished.result)
        else:
            from raybench.reports.study.terminal import print_study

            print_study(finished.result, sys.stdout, folder=finished.folder, full=full)
    return finished.exit_code


def _print_json(result: "StudyResult") -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(result.to_json()), indent=2).decode())
