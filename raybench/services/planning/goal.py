"""How long a training is to be, and whether the best way does it by the deadline and within the budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raybench.documents.price import Price
from raybench.performance_model.estimate.unknown import without_peak
from raybench.units import amounts, short_number
from raybench.verdicts import Conclusion

if TYPE_CHECKING:
    from raybench.documents.training_plan import TrainingWay
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.ways.way import Way

Range = tuple[float, float]
_NOTHING_ELSE = "nothing else that was tried does; take a smaller model, a shorter sequence or a larger GPU"
_MILLION = 1e6
_BY_WEIGHT = ("ok", "unknown", "critical")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What is to be reached; None: nothing was said. Budget in the price's currency."""

    tokens: int | None = None
    deadline_seconds: float | None = None
    budget: float | None = None

    def hours(self, tokens_per_second: Range | None) -> Range | None:
        """Of the whole training, shortest and longest."""
        if self.tokens is None or tokens_per_second is None:
            return None
        return self.tokens / tokens_per_second[1] / 3600, self.tokens / tokens_per_second[0] / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoned:
    """A way with what the whole training takes and costs by it; None: unknown, or no length or price was given."""

    way: "Way"
    hours: Range | None
    cost: Range | None

    def misses(self, goal: Goal) -> tuple[int, int]:
        """How badly it misses one of them, 0 not and 2 surely, and how badly all together."""
        each = [_BY_WEIGHT.index(one) for one in (_in_time(self.hours, goal), _within(self.cost, goal.budget))]
        return max(each), sum(each)


def reckoned(way: "Way", price: Price | None, goal: Goal) -> Reckoned:
    """The way with its hours and cost."""
    hours = goal.hours(way.estimate.tokens_per_second)
    each = price.per_node_hour * way.estimate.request.layout.nodes if hours and price else None
    return Reckoned(
        way=way, hours=hours, cost=(hours[0] * each, hours[1] * each) if hours and each is not None else None
    )


def meeting_first(ways: Sequence[Reckoned], goal: Goal) -> tuple[Reckoned, ...]:
    """The ways; where the best may miss a goal that another which fits is sure to meet, or to miss less, that first."""
    fitting = [one for one in ways if one.way.fits]
    best = min(fitting, key=lambda one: one.misses(goal), default=None)
    if best is None or not ways[0].way.fits or best.misses(goal) >= ways[0].misses(goal):
        return tuple(ways)
    return best, *(one for one in ways if one is not best)


def judged(
    ways: Sequence["TrainingWay"], request: "EstimateRequest", goal: Goal, nearest: Callable[[], tuple[str, ...]]
) -> tuple[Conclusion, tuple[str, ...]]:
    """The verdict on the best way, with its figures; where none is sure to fit, ``nearest`` says what is: these too."""
    best = ways[0]
    if best.fits is False:
        choices = nearest()
        told = f"nearest that does: {_any_of(choices)}" if choices else _NOTHING_ELSE
        return Conclusion(verdict="critical", reason=f"nothing fits: {told}"), choices
    if request.memory_bytes is None:
        return Conclusion(verdict="unknown", reason="the memory of the GPU is not known; give --gpu or --memory"), ()
    if best.tokens_per_second is None and request.gpu and request.gpu.peak_tflops(request.dtype) is None:
        lead = f"no time is known, {without_peak(request.gpu, request.dtype)}: "
        return Conclusion(verdict="unknown", reason=lead + _figures(best, request)), ()
    verdicts = [
        ("fits", "unknown" if best.fits is None else "ok"),
        ("the deadline", _in_time(best.hours, goal)),
        ("the budget", _within(best.cost, goal.budget)),
    ]
    missed = [name for name, verdict in verdicts if verdict == "critical"]
    open_ones = [name for name, verdict in verdicts if verdict == "unknown"]
    lead = f"misses {' and '.join(missed)}: " if missed else ""
    if open_ones and not missed:
        lead = (
            f"may fit, {_by_what(best, request)}: " if "fits" in open_ones else f"may miss {' and '.join(open_ones)}: "
        )
    verdict = "critical" if missed else "unknown" if open_ones else "ok"
    choices = nearest() if "fits" in open_ones and not missed else ()
    sure = f"; fits in any case: {_any_of(choices)}" if choices else ""
    reason = lead + _figures(best, request) + sure
    return Conclusion(verdict=verdict, reason=reason), choices  # type: ignore[arg-type]  # as above


def _any_of(choices: Sequence[str]) -> str:
    """In a sentence."""
    return "; or ".join(choices)


def _by_what(best: "TrainingWay", request: "EstimateRequest") -> str:
    """What has to be so for a way to fit that may; nothing, where its most fits but for what estimates are off."""
    if request.memory_bytes is not None and best.peak <= request.memory_bytes:
        return "too near to tell"
    is_near = request.is_known or best.least_needed is not None
    if best.experts_left_by:
        beside = "" if is_near else " and the leanest kernels and loss"
        return f"with experts in few bits ({best.experts_left_by} leaves them in 16){beside}"
    return "too near to tell" if is_near else "with the leanest kernels and loss"


def _in_time(hours: Range | None, goal: Goal) -> str:
    return _within(hours, goal.deadline_seconds and goal.deadline_seconds / 3600)


def _within(pair: Range | None, most: float | None) -> str:
    if most is None:
        return "ok"
    if pair is None:
        return "unknown"
    return "ok" if pair[1] <= most else "critical" if pair[0] > most else "unknown"


def _figures(best: "TrainingWay", request: "EstimateRequest") -> str:
    per = "rank" if best.tensor_parallel * best.context_parallel * best.pipeline_parallel == 1 else "replica"
    text = [f"{best.name}, {best.accumulation} x {best.batch_size} samples a {per}: {_size(best, request)}"]
    if best.tokens_per_second:
        text.append(f"{' to '.join(map(short_number, best.tokens_per_second))} tokens/s")
    if best.hours:
        text.append(f"{_span(best.hours)} in all")
    if best.cost and request.price:
        text.append(f"{_in_short(best.cost)} {request.price.currency}")
    return ", ".join(text)


def _in_short(pair: Range) -> str:
    """Money: ``22.9M to 46.1M`` of millions, of which three digits are more than is known."""
    return " to ".join(map(short_number, pair)) if pair[1] >= _MILLION else amounts(pair)


def _size(best: "TrainingWay", request: "EstimateRequest") -> str:
    """What it needs at most, and what is left then."""
    peak, memory = best.peak / 2**30, request.memory_bytes
    if memory is None:
        return f"{peak:.0f} GiB"
    left = round(memory / 2**30) - round(peak)
    told = [f"{left} left"] if left > 0 else []
    if best.least_needed is not None:
        told.append(f"{best.least_needed / 2**30:.0f} without the allocator's cache")
    elif left <= 0 and best.least_peak < best.peak:
        told.append(f"{best.least_peak / 2**30:.0f} at least")
    return f"{peak:.0f} of {memory / 2**30:.0f} GiB" + (f" ({', '.join(told)})" if told else "")


def _span(hours: Range) -> str:
    if hours[1] < 0.05:
        return f"{hours[0] * 3600:.0f} to {hours[1] * 3600:.0f} s"
    if hours[1] < 2:
        return f"{hours[0] * 60:.0f} to {hours[1] * 60:.0f} min"
    unit, length = ("h", 1) if hours[1] < 96 else ("days", 24)
    return f"{' to '.join(short_number(float(f'{one / length:.2g}')) for one in hours)} {unit}"
