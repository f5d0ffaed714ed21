"""Published trainings estimated by what their program is said to be, instead of what was read up for each row.

    python -m tests.performance_model.programs.by_program

Rows of sources whose program is known (``published/programs.csv``) have columns that were written by hand: kernels,
loss, types of gradients and weights, and what ``published_sources`` knows of a source. Here each row is asked four
times: as its user would with no more than the size, strategy, method and checkpointing of the training; the same with
``--program`` and what is switched on in it; with its release where that is known (``transformers==4.35``), and then
without a word on whether attention stores its scores; and as the tables have it by hand. A line a program: how far
memory is off (of the rows whose memory is published: median, ninth decile, median of the estimate over it, and the
share that is no more than a tenth outside of what the answer leaves open), how far apart its most and its least memory
are, how many runs that ran are told that they do not fit and how many that did not that they do, and of step times the
share inside the bounds and their width. A few seconds.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.memory.rank import MemoryEstimate
from raybench.performance_model.programs.program import usual_strategy
from raybench.performance_model.programs.table import program_named
from raybench.performance_model.request.heaviest import heaviest
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import refused, with_program
from raybench.performance_model.setup.training_setup import TrainingSetup
from tests.performance_model.leave_one_out import memory_of
from tests.performance_model.published_run import FOLDER, PublishedRun
from tests.performance_model.published_runs import all_runs

_NEAR = 0.1
WAYS = ("nothing said", "program", "release", "by hand")
# What a user says of a training whatever the program, as options of ``raybench estimate`` have it.
_SAID = (
    *("batch_size", "sequence_length", "strategy", "optimizer", "parameter_bytes", "compute_bytes", "moment_bytes"),
    *("checkpointing", "recomputed_share", "selective", "flash_attention", "whole_attention", "offload"),
    *("offloads_activations", "lora_rank", "lora_targets", "quantized", "packing", "sequence_parallel"),
    "frozen_inputs",  # of a release of bitsandbytes, not of a program
)
# Programs whose users choose kernels and loss (Liger's, FOAK, Cut Cross-Entropy): a row that has them says so.
_OPEN = ("transformers", "fms-hf-tuning", "trl", "axolotl", "llama-factory", "ms-swift", "xtuner", "open-instruct")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One row asked in one way: published memory over the estimate's, how open that is, and its step time."""

    program: str
    way: str
    source: str
    memory: float | None
    within: bool | None
    openness: float
    inside: bool | None
    width: float | None
    fits: bool | None
    said: bool | None


def programs() -> dict[str, str]:
    """Of the sources whose program is known: its name."""
    with (FOLDER / "programs.csv").open() as file:
        return {row["source"]: row["program"] for row in csv.DictReader(file)}


def releases() -> dict[str, str]:
    """Of the sources whose program's release is known, by what they say or by their date: the program with it."""
    with (FOLDER / "programs.csv").open() as file:
        return {row["source"]: f"{row['program']}=={row['release']}" for row in csv.DictReader(file) if row["release"]}


def as_user_says(run: PublishedRun, program: str | None, *, released: bool = False) -> EstimateRequest:
    """The request with no more than a user knows of any program; with what is chosen of this one, where it is named.

    ``released``: whether its release is said, which says whether scores are stored, or inputs of 4-bit layers kept.
    """
    hand = run.request
    setup = TrainingSetup(
        **{name: getattr(hand.setup, name) for name in _SAID},
        compiled=hand.setup.compiled if program else None,
        has_8bit_inner=hand.setup.has_8bit_inner and program is not None,
        bucket_view=True,
        adapter_dropout=True,  # as nobody says it
        gradients_kept=hand.setup.gradients_kept or (hand.setup.strategy == "ddp" and hand.layout.world_size > 1),
    )
    stored = None if hand.setup.flash_attention else True  # as --no-flash-attention is said, or nothing
    if released:  # of attention that stores nothing somebody knows, who has switched it on
        stored = True if hand.setup.flash_attention else None
        setup = replace(setup, flash_attention=True, frozen_inputs="dropped")
    known = {"compiled": setup.compiled, "sequence_parallel": hand.setup.sequence_parallel, "flash_attention": stored}
    known["has_8bit_inner"] = setup.has_8bit_inner or None
    said = {name for name, value in known.items() if value is not None}
    request = replace(hand, setup=setup, kernels_known=False, loss_known=False, gradients_known=False, reduce_bytes=4)
    request = replace(request, adapter_dropout_known=False, streams_known=False)
    if program in _OPEN:
        request, chosen = _chosen(request, hand)
        said |= chosen
    setup = heaviest(request.setup, kernels_known=request.kernels_known, loss_known=request.loss_known)
    return replace(request, setup=setup, said=frozenset(said))


def _chosen(request: EstimateRequest, hand: EstimateRequest) -> tuple[EstimateRequest, set[str]]:
    """What is switched on beside transformers: fused kernels, a plug-in's loss, FlashAttention-3, weights in bf16."""
    said: set[str] = set()
    setup = request.setup
    if hand.kernels_known and hand.setup.kernels == "fused":
        said.add("kernels")
        request, setup = replace(request, kernels_known=True), replace(setup, kernels="fused")
    if hand.loss_known and hand.setup.loss in ("chunked", "fused-fp32"):
        said.add("loss")
        request, setup = replace(request, loss_known=True), replace(setup, loss=hand.setup.loss)
    if hand.setup.native_attention:
        said.add("native_attention")
        setup = replace(setup, native_attention=True)
    if setup.parameter_bytes != 4:
        said.add("parameter_bytes")
    return replace(request, setup=setup), said


def ways_of(run: PublishedRun, program: str) -> dict[str, EstimateRequest] | None:
    """The request in each way; None where the program has no such training."""
    named = replace(as_user_says(run, program), program=program_named(program))
    if named.layout.world_size == 1:  # which spreads nothing: nobody says a strategy
        named = replace(named, setup=replace(named.setup, strategy=usual_strategy(named.program, 1)))
    if named.program is None or refused(named.program, named) is not None:
        return None
    named = with_program(named)
    release = releases().get(run.source)
    released = with_release(run, program, release) if release else named
    return {"nothing said": as_user_says(run, None), "program": named, "release": released, "by hand": run.request}


def with_release(run: PublishedRun, program: str, release: str) -> EstimateRequest:
    """As a user says it who knows the release, ``transformers==4.35``, and so nothing of whether scores are stored."""
    named = replace(as_user_says(run, program, released=True), program=program_named(release))
    if named.layout.world_size == 1:
        named = replace(named, setup=replace(named.setup, strategy=usual_strategy(named.program, 1)))
    return with_program(named)


def asked(run: PublishedRun, program: str, way: str, request: EstimateRequest) -> Asked:
    """One row, estimated."""
    answer = estimate(request, alone=False)
    bounds, seconds = answer.step_seconds, run.step_seconds
    return Asked(
        program=program,
        way=way,
        source=run.source,
        memory=_memory(run, answer.memory) / run.memory_bytes if run.memory_bytes else None,
        within=_is_within(run, answer),
        openness=answer.peak / answer.least_peak,
        inside=bounds[0] <= seconds <= bounds[1] if bounds and seconds else None,
        width=bounds[1] / bounds[0] if bounds and seconds else None,
        fits=run.fits,
        said=answer.fits,
    )


def _memory(run: PublishedRun, memory: MemoryEstimate) -> float:
    return float(memory_of(memory, run.memory_is, float(run.request.memory_bytes or 0)))


def _is_within(run: PublishedRun, answer: Estimate) -> bool | None:
    """Whether what was published is no more than a tenth outside of the least and the most that the answer has."""
    if not run.memory_bytes:
        return None
    both = [_memory(run, answer.least_memory), _memory(run, answer.memory)]
    return (1 - _NEAR) * min(both) <= run.memory_bytes <= (1 + _NEAR) * max(both)


def table(rows: Sequence[Asked]) -> str:
    """A line for each program and way."""
    memory = f"{'memory':>8}{'median':>8}{'p90':>7}{'bias':>7}{'within':>8}{'open':>7}"
    verdicts = f"{'refused':>9}{'promised':>9}"
    heading = f"{'program':16}{'way':14}{'rows':>5}{memory}{verdicts}{'times':>7}{'inside':>8}{'width':>7}"
    lines = [
        _line(name, way, [row for row in rows if row.program == name and row.way == way])
        for name in sorted({row.program for row in rows})
        for way in WAYS
    ]
    sums = [_line("all", way, [row for row in rows if row.way == way]) for way in WAYS]
    return "\n".join([heading, *lines, *sums])


def _line(name: str, way: str, rows: Sequence[Asked]) -> str:
    timed = [row.inside for row in rows if row.inside is not None]
    width = middle(row.width for row in rows)
    ran, failed = [row for row in rows if row.fits], [row for row in rows if row.fits is False]
    refused_ = f"{sum(row.said is False for row in ran)}/{len(ran)}"
    promised = f"{sum(row.said is True for row in failed)}/{len(failed)}"
    return (
        f"{name:16}{way:14}{len(rows):5}{_memory_in_words(rows)}{refused_:>9}{promised:>9}"
        f"{len(timed):7}{_percent(_share(timed)):>8}{_times(width):>7}"
    )


def _memory_in_words(rows: Sequence[Asked]) -> str:
    within = [row.within for row in rows if row.within is not None]
    return (
        f"{len(within):8}{_percent(middle(off(rows))):>8}{_percent(ninth(off(rows))):>7}"
        f"{_times(middle(row.memory for row in rows)):>7}{_percent(_share(within)):>8}"
        f"{_times(middle(row.openness for row in rows)):>7}"
    )


def off(rows: Iterable[Asked]) -> list[float]:
    """How far memory is off, in order."""
    return sorted(abs(row.memory - 1) for row in rows if row.memory is not None)


def middle(values: Iterable[float | None]) -> float | None:
    """The median of those that are known."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def ninth(values: Sequence[float]) -> float | None:
    """The ninth decile of values that are in order."""
    return values[int(0.9 * (len(values) - 1))] if values else None


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def all_asked() -> list[Asked]:
    """Every row of a source whose program is known, in each way."""
    of = programs()
    found = []
    for run in all_runs():
        program = of.get(run.source)
        requests = ways_of(run, program) if program else None
        for way, request in (requests or {}).items():
            found.append(asked(run, str(program), way, request))
    return found


if __name__ == "__main__":
    print(table(all_asked()))
