"""An estimate for a terminal: whether it fits, what a step takes, sends and costs, by which formula. Pure."""

from collections.abc import Iterator, Sequence

from raybench.documents.estimate import (
    CostEstimate,
    EstimateReport,
    MeasuredSetting,
    MemoryParts,
    OtherPrograms,
    OwnRunTold,
    links_measured,
)
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Block, Cell, Choice, Facts, Grid, Heading, Report, Table, notes_of
from raybench.reports.text import count_of
from raybench.units import format_seconds, hours_told

_FEW_NAMES, _FEW_GROUPS = 2, 2
Row = tuple[str, str, str]  # what, how much, by which formula (its name) or on what basis
_PARTS = (
    "parameters", "gradients", "optimizer_state", "buffers", "activations", "logits", "optimizer_temporaries",
    "context", "fragmentation", "allocated", "peak",
)  # fmt: skip


def estimate_tables(estimate: EstimateReport, _: Asked) -> Report:
    """The report. Its verdict is whether it fits, where that is known."""
    ranks = f"{count_of(estimate.world_size, 'rank')} on {count_of(estimate.nodes, 'node')}"
    gpu = f", {estimate.gpu}" if estimate.gpu else ""
    ways = ", ".join([estimate.strategy, *_cuts(estimate)])
    measured = measured_in_short(estimate.measured, links_measured(estimate.basis), estimate.own_runs)
    name = f"raybench estimate, {measured}: {estimate.model.name}, {ways}, {ranks}{gpu}"
    return Report(
        name=name,
        title=name,
        verdict=estimate.verdict or "",
        reason=_fit(estimate) + measured_reason(estimate.measured) if estimate.verdict else "",
        lead="",
        when="",
        blocks=tuple(_blocks(estimate)),
    )


def _cuts(estimate: EstimateReport) -> Iterator[str]:
    """``TP 4``, ``PP 8 x 2``: as people write it."""
    for name, ranks in (
        ("TP", estimate.tensor_parallel),
        ("CP", estimate.context_parallel),
        ("PP", estimate.pipeline_parallel),
        ("EP", estimate.expert_parallel),
    ):
        if ranks > 1:
            chunks = estimate.virtual_stages if name == "PP" else 1
            yield f"{name} {ranks}" + (f" x {chunks}" if chunks > 1 else "")
    if estimate.expert_tensor_parallel is not None and estimate.tensor_parallel > 1:
        yield f"ETP {estimate.expert_tensor_parallel}"


def measured_in_short(
    settings: Sequence[MeasuredSetting], links: str | None, own_runs: Sequence[OwnRunTold] = ()
) -> str:
    """Which figures are measured, for a title; else which runs correct them."""
    ways = dict.fromkeys(one.way for one in settings if one.taken)
    told = []
    for way in ways:
        taken = dict.fromkeys(name for one in settings if one.way == way for name in one.taken)
        told.append(f"measured{f' of {way}' if way else ''}: {', '.join(taken)}")
    told += ["links measured"] if links else []
    told += [f"corrected by {count_of(len(own_runs), 'run')}"] if own_runs else []
    return "; ".join(told) or "nothing was measured"


def measured_reason(settings: Sequence[MeasuredSetting]) -> str:
    """Which of a verdict's figures are measured, and by which run; nothing where none is."""
    taken = [f"{', '.join(one.taken)} measured by run {one.run_id}" for one in settings if one.taken]
    return f"; {', '.join(taken)}" if taken else ""


def measured_notes(settings: Sequence[MeasuredSetting]) -> Iterator[str]:
    """What became of each run that was given, with what its figures stand in place of."""
    for one in settings:
        way = f" of {one.way}" if one.way else ""
        if one.corrects:
            continue
        if one.why_not:
            yield f"{one.kind} of run {one.run_id} not used{way and f' (nearest way: {one.way})'}: {one.why_not}"
        else:
            yield f"measured by run {one.run_id}{way}: {'; '.join([*_measured_figures(one), *_ratios(one)])}"
            continue
        yield from (f"run {one.run_id}: {text}, not applied" for text in _ratios(one))


_ODD_SLOW = (
    "that is slower than nearly all trainings are: if its options say all that differs, something holds it up "
    "(raybench diagnose its log, raybench preflight its nodes), and this training as well"
)
_ODD_RESULT = "than nearly all trainings are: raybench diagnose its log, raybench preflight its nodes"
_MOST_LISTED = 2
_CONTRADICTED = (
    "other runs contradict it: by them it takes {}; look whether its options say all that differs, and take out what "
    "is wrong"
)
_ODD_FAST = "that is faster than nearly all trainings are: look whether its options say all that differs"


def own_run_notes(
    runs: Sequence[OwnRunTold], alone: tuple[float, float] | None = None, *, in_short: bool = False
) -> Iterator[str]:
    """What each run that corrects the step's bounds took, and what they are without: ``alone``.

    ``in_short``: more than two in one line, but those that are further off than trainings are, or than the others say.
    """
    is_listed = not in_short or len(runs) <= _MOST_LISTED
    if not is_listed:
        ratios = [one.step_seconds / one.told_seconds for one in runs]
        took = f"{min(ratios):.2f} to {max(ratios):.2f} times the likely one"
        yield f"step corrected by {len(runs)} runs, whose steps took {took}; each: --full"
    for one in runs:
        if not (is_listed or one.is_odd or one.by_others_seconds):
            continue
        times = one.step_seconds / one.told_seconds
        without = f"; without it {' to '.join(map(format_seconds, alone))}" if alone and len(runs) == 1 else ""
        took = f"a step took {format_seconds(one.step_seconds)}, {times:.2f} times the likely one"
        yield f"step corrected by {one.text}: {took}{without}"
        if one.is_odd:
            yield (_ODD_SLOW if times > 1 else _ODD_FAST)
        elif one.by_others_seconds:
            yield _CONTRADICTED.format(format_seconds(one.by_others_seconds))
    if alone and len(runs) > 1:
        yield f"step without these runs {' to '.join(map(format_seconds, alone))}"


def _measured_figures(one: MeasuredSetting) -> Iterator[str]:
    if one.run_verdict == "critical":
        yield "that run found a problem, which is in its figures"
    if "step time" in one.taken and one.step_seconds and one.median_step_seconds is not None:
        low, high = map(format_seconds, one.step_seconds)
        instead = one.estimated_step_seconds
        estimated = f", estimated {' to '.join(map(format_seconds, instead))}" if instead else ""
        yield f"step {format_seconds(one.median_step_seconds)} ({low} to {high}{estimated}), on the run's own network"
        if one.is_odd and instead:
            yield f"{'slower' if one.median_step_seconds > instead[0] else 'faster'} {_ODD_RESULT}"
    if "peak memory" in one.taken and one.peak_bytes is not None:
        instead_of = one.estimated_peak_bytes
        estimated = f" (estimated {in_gib(instead_of)})" if instead_of else ""
        yield f"peak {in_gib(one.peak_bytes)}{estimated}"
    elif "whether it fits" in one.taken and one.peak_bytes is None:
        yield "ran out of memory"


def _ratios(one: MeasuredSetting) -> Iterator[str]:
    if one.memory_ratios:
        listed = ", ".join(f"{ratio:.2f} at batch size {size}" for size, ratio in one.memory_ratios.items())
        yield f"memory measured over estimated: {listed}"


def _fit(estimate: EstimateReport) -> str:
    memory, found = estimate.memory, {name for one in estimate.measured for name in one.taken}
    if memory.fits is False and "whether it fits" in found and memory.nearest_peak is None:
        if "peak memory" not in found:
            return (
                "it does not fit: measured, it ran out of memory; take a smaller batch size, or recompute activations"
            )
        size = f"{in_gib(memory.peak)}, a GPU has {in_gib(memory.device_bytes or 0)}"
        return f"it does not fit: {size}; take a smaller batch size, or recompute activations"
    least = memory.peak if memory.least_peak is None else memory.least_peak
    has = "" if memory.device_bytes is None else f", a GPU has {in_gib(memory.device_bytes)}"
    between = in_gib(memory.peak) if least == memory.peak else f"{in_gib(least)} to {in_gib(memory.peak)}"
    between += _likely(memory)
    if memory.fits:
        return f"it fits: {between}{has}{_largest(memory)}"
    if memory.fits is None:
        return _may_fit(estimate, least, between, has)
    nothing = "; nothing that was tried makes it fit: take a smaller model, a shorter sequence or a larger GPU"
    return f"it does not fit: {between}{has}{_nearest(memory, '; nearest that fits') or nothing}"


def _may_fit(estimate: EstimateReport, least: int, between: str, has: str) -> str:
    """What it hangs on: which GPU is meant, whether activations are computed again, what is kept, or some per cent."""
    memory = estimate.memory
    if memory.other_device_bytes:
        sizes = " or ".join(in_gib(size) for size in (memory.device_bytes or 0, *memory.other_device_bytes))
        return f"it may fit: {between}, and GPUs of that name have {sizes}; say which (--memory, --node-type)"
    if memory.recomputed_peak is not None:
        return _fits_recomputed(memory, f"without it {between}{has}")
    if least == memory.peak:
        return (
            f"it may fit: {_with_pools(memory)}{has}, too near to tell; measure it (raybench memory)"
            f"{_nearest(memory, '; fits in any case')}"
        )
    why, to_tell = _why_unclear(estimate, least)
    if memory.experts_left_by:
        lean, heavy = (" and the leanest kernels and loss", " and the heaviest kernels and loss that may be meant")
        lean, heavy = (lean, heavy) if _are_kernels_open(estimate) else ("", "")
        why = (
            f"{in_gib(least)} with experts in few bits{lean}, {in_gib(memory.peak)} with them in 16, as "
            f"{memory.experts_left_by} leaves them{heavy}{_likely(memory)}"
        )
        rest = to_tell.removeprefix("say ").removeprefix("--program").removeprefix(", or ").removesuffix(", or ")
        to_tell = f"say --program and its release{f', for the rest {rest}' if rest else ''}, or "
    if memory.least_needed is not None:
        why = f"{in_gib(memory.least_needed)} at the least; with what PyTorch's allocator holds besides {why}"
    return f"it may fit: {why}{has}; {to_tell}measure it{_nearest(memory, '; fits in any case')}"


def _fits_recomputed(memory: MemoryParts, without: str) -> str:
    """Of what fits only with activations computed again, which nobody says: surely, or in the form that needs least."""
    if memory.nearest_options == (_RECOMPUTED,) and memory.nearest_peak is not None:
        return f"it fits only with {_RECOMPUTED} ({in_gib(memory.nearest_peak)}); {without}"
    again = f"only with {_RECOMPUTED}, from {in_gib(memory.recomputed_peak or 0)} on"
    return f"it may fit: {again}, {without}{_nearest(memory, '; fits in any case')}"


def _likely(memory: MemoryParts) -> str:
    """``, most likely 46 GiB``: empty where that is about as much as the least or the most."""
    likely, least = memory.likely_peak, memory.least_peak
    if likely is None or least is None or not least * (1 + _ABOUT) < likely < memory.peak * (1 - _ABOUT):
        return ""
    return f", most likely {in_gib(likely)}"


def _largest(memory: MemoryParts) -> str:
    """``; largest batch size 4 (6 with the leanest kernels)``: that which fits whatever is not said, first."""
    if memory.largest_batch_size is None:
        return ""
    lean = f" ({memory.lean_batch_size} with {memory.lean_is})" if memory.lean_batch_size else ""
    return f"; largest batch size {memory.largest_batch_size}{lean}"


def _with_pools(memory: MemoryParts) -> str:
    """The peak; where the GPU has less, also without the blocks that PyTorch's allocator can let go of."""
    if memory.device_bytes is None or memory.peak <= memory.device_bytes:
        return in_gib(memory.peak)
    needed = in_gib(memory.allocated + memory.context)
    return f"{needed}, and {in_gib(memory.peak)} with what PyTorch's allocator holds besides"


_ABOUT = 0.03  # of a peak: how far the median estimate is off
_RECOMPUTED = "--activation-checkpointing"
_EITHER_WAY = ("--compile", "--flash-attention", "--dropout", "--lora-dropout")
_OF_MEMORY = ("--gradient-dtype", "--use-precision-aware-optimizer", "--activation-func-fp8-input-store")


def _are_kernels_open(estimate: EstimateReport) -> bool:
    return estimate.step_seconds is None or bool({"--kernels", "--loss"} & {*estimate.not_said})


def _why_unclear(estimate: EstimateReport, least: int) -> tuple[str, str]:
    """The least and the most memory with what makes the difference, and what a user can say to know more."""
    most, named, likely = estimate.memory.peak, estimate.program is not None, _likely(estimate.memory)
    drops = [name for name in _EITHER_WAY if name in estimate.not_said]
    narrow = [name for name in _OF_MEMORY if name in estimate.not_said]
    if not _are_kernels_open(estimate):
        by = "by what is not said of it" if named else "as programs keep less or more for their backward pass"
        to_say = ([] if named else ["--program"]) + [f"{name} or --no-{name[2:]}" for name in drops] + narrow
        return f"{in_gib(least)} to {in_gib(most)}, {by}{likely}", f"say {', or '.join(to_say)}, or " if to_say else ""
    *options, last = ("--kernels", "--loss", *drops)
    kinds = (
        f"{in_gib(least)} with the leanest kernels and loss, {in_gib(most)} with the heaviest that may be meant{likely}"
    )
    return kinds, f"say {'' if named else '--program, or '}{', '.join(options)} and {last}, or "


def _nearest(memory: MemoryParts, lead: str) -> str:
    if memory.nearest_peak is None:
        return ""
    return f"{lead}: {' '.join(memory.nearest_options)} ({in_gib(memory.nearest_peak)})"


def _blocks(estimate: EstimateReport) -> Iterator[Block]:
    for title, rows in (
        ("Model", _model(estimate)),
        ("Communication of a rank and step", _communication(estimate)),
        ("Memory of a GPU", _memory(estimate)),
        ("Time", _time(estimate)),
        ("Cost", _cost(estimate.cost) if estimate.cost else ()),
    ):
        if listed := tuple((name, value, estimate.formulas.get(origin, origin)) for name, value, origin in rows):
            yield Heading(text=title)
            yield Choice(forms=tuple(_forms(listed)))
    yield from notes_of(list(measured_notes(estimate.measured)), tone="info")
    yield from notes_of(list(own_run_notes(estimate.own_runs, estimate.uncorrected_step_seconds)), tone="info")
    if estimate.basis:
        yield Heading(text="From")
        yield Facts(pairs=tuple(estimate.basis.items()))
    yield from notes_of([f"unknown: {reason}" for reason in estimate.unknown], tone="warn")
    yield from open_notes(estimate)
    yield from notes_of(list(map(out_of_bounds, estimate.other_programs)), tone="info")


def open_notes(estimate: EstimateReport) -> Iterator[Block]:
    """What is slower than it needs to be, which options are open, and which programs are out of the bounds."""
    yield from notes_of(list(estimate.advice), tone="warn")
    options = ", ".join(estimate.not_said)
    text = f"not said: {options}; the step's bounds hold either way{_by_program(estimate)}"
    yield from notes_of([text] if options else [], tone="info")


def _by_program(estimate: EstimateReport) -> str:
    return "" if estimate.program else "; --program NAME says them at once"


def other_programs_in_short(others: Sequence[OtherPrograms]) -> list[str]:
    """Those that are furthest out of the bounds, on a line; none where none is."""
    if not others:
        return []
    told = [f"{_named(one.names, _FEW_NAMES)} ({one.how}: {_first(one.why)})" for one in others[:_FEW_GROUPS]]
    rest = ["others: --full"] if len(others) > _FEW_GROUPS else []
    return [f"not said: --program; out of the bounds are {'; '.join([*told, *rest])}"]


def out_of_bounds(one: OtherPrograms) -> str:
    """Of a list where each has a line."""
    return f"out of the bounds: {', '.join(one.names)}: {one.how}: {', '.join(one.why) or 'all of it together'}"


def _named(names: Sequence[str], most: int) -> str:
    listed = ", ".join(names[:most])
    return listed if len(names) <= most else f"{listed} and {len(names) - most} more"


def _first(why: Sequence[str]) -> str:
    return f"{why[0]}, ..." if len(why) > 1 else "".join(why) or "all of it together"


def _forms(rows: Sequence[Row]) -> Iterator[tuple[Block, ...]]:
    """A table, or where it is too wide, a line a figure: no formula is left out."""
    cells = tuple(tuple(Cell(text=text) for text in row) for row in rows)
    yield (Table(grid=Grid(headings=("figure", "value", "from"), rows=cells), text_columns=3),)
    yield (Facts(pairs=tuple((name, "; ".join(filter(None, (value, origin)))) for name, value, origin in rows)),)


def _model(estimate: EstimateReport) -> Iterator[Row]:
    model = estimate.model
    trained = model.trainable_parameters
    share = "" if trained == model.parameters else f", {trained:,} trained"
    yield "parameters", f"{model.parameters:,}{share}", "parameters"
    yield "operations per token", f"{model.flops_per_token / 1e9:.2f} GFLOP", "flops_per_token"


def _communication(estimate: EstimateReport) -> Iterator[Row]:
    found = estimate.communication
    for one in found.messages:
        over = f"over {count_of(one.ranks, 'rank')}, {count_of(one.nodes, 'node')}"
        yield f"{one.operation} ({one.phase})", f"{one.count} x {one.message_bytes / 1e6:,.2f} MB", over
    yield "sent", f"{found.wire_bytes_per_rank / 1e9:.3f} GB", "wire_bytes"
    alone = "unknown" if found.seconds is None else format_seconds(found.seconds)
    yield "time of it alone", alone, "communication"


def _memory(estimate: EstimateReport) -> Iterator[Row]:
    memory = estimate.memory
    measured = next((f"measured by run {one.run_id}" for one in estimate.measured if "peak memory" in one.taken), "")
    is_range = not measured and memory.likely_peak is not None and memory.likely_peak < memory.peak
    if is_range:
        measured = "of what may be meant the one that takes most"
    for name in _PARTS:
        if name == "peak" and is_range:  # of which the parts are
            yield "likely peak", in_gib(memory.likely_peak or 0), "memory"
        if size := getattr(memory, name):
            yield name.replace("_", " "), in_gib(size), (measured or "memory") if name == "peak" else ""
    if memory.fullest_moment is not None:
        held = memory.fullest_moment_bytes
        with_gradients = ", gradients among them" if memory.gradients_come_and_go else ""
        told = "" if held is None else f"{in_gib(held)} that come and go{with_gradients}"
        yield "fullest moment", memory.fullest_moment, told


def _time(estimate: EstimateReport) -> Iterator[Row]:
    if estimate.step_seconds is None:
        return
    low, high = estimate.efficiency.range
    yield "efficiency of computation", f"{low:.0%} to {high:.0%} of the peak", estimate.efficiency.source
    measured = next((f"measured by run {one.run_id}" for one in estimate.measured if "step time" in one.taken), "")
    for name, pair, formula in (
        ("computation", estimate.computation_seconds, ""),
        ("exposed communication", estimate.communication.exposed_seconds, "between all hidden that can be, and none"),
        ("pipeline bubble", estimate.pipeline_bubble_seconds, "bubble"),
        ("step", estimate.step_seconds, measured or "step"),
    ):
        if pair is not None:
            yield name, " to ".join(map(format_seconds, pair)), formula
    if estimate.tokens_per_second is not None:
        yield "tokens/s", between(estimate.tokens_per_second), ""
    if estimate.counted_tokens_per_second is not None:
        yield "tokens/s without padding", between(estimate.counted_tokens_per_second), "mean tokens / sequence length"
    if estimate.samples_per_second is not None:
        yield "samples/s", between(estimate.samples_per_second), "ranks x batch size x micro-batches / step"
    if estimate.mfu is not None:
        yield "MFU", f"{estimate.mfu[0]:.1%} to {estimate.mfu[1]:.1%}", "mfu"
    if estimate.epoch_seconds is not None:
        epoch = f"an epoch of {estimate.epoch_samples:,} samples"
        yield epoch, epoch_time(estimate.epoch_seconds), "samples / samples/s"


def _cost(cost: CostEstimate) -> Iterator[Row]:
    yield "all nodes, an hour", f"{cost.per_hour:.2f} {cost.currency}", cost.source
    yield "1000 samples", f"{between(cost.per_1k_samples)} {cost.currency}", "cost"
    yield "a million tokens", f"{between(cost.per_million_tokens)} {cost.currency}", ""
    if cost.per_epoch:
        samples = "" if cost.epoch_samples is None else f" of {cost.epoch_samples:,} samples"
        yield f"an epoch{samples}", f"{between(cost.per_epoch)} {cost.currency}", ""


def epoch_time(seconds: tuple[float, float]) -> str:
    """``15.4 to 28.5 hours``."""
    pair, unit = hours_told((seconds[0] / 3600, seconds[1] / 3600))
    return f"{between(pair)} {unit}"


def between(values: Sequence[float | None]) -> str:
    """``1,234 to 2,345``: four digits, and an unknown bound said to be so."""
    return " to ".join(
        "unknown" if value is None else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}" for value in values
    )


def in_gib(size: float) -> str:
    """A size of memory."""
    return f"{size / 2**30:.2f} GiB"
