"""What a training benchmark finds out about the cluster. Pure."""

from collections.abc import Callable, Iterator
from math import isfinite

from diagnostics.findings import Finding
from diagnostics.limits import NORMAL_95
from raybench.benchmarks.training.options import MADE_DATA
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.communication import HIGH_OVERHEAD
from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.training.straggler import Straggler
from raybench.documents.run.training.threshold import HIGH_DATA_SHARE
from raybench.finding_rules.workloads import DATA_LOADING_SLOW, LOSS_NOT_FINITE
from raybench.timeline.growth import growth_findings
from raybench.units import format_seconds

LARGE_EXCESS, LARGE_EMULATED_EXCESS = 0.25, 0.6  # of a rank at 0.8, and at about 0.6, of the others' speed
LOSS_RULE = LOSS_NOT_FINITE.id


def training_findings(
    benchmark: BenchmarkResult, node_of: Callable[[int], str | None], *, emulated: bool = False
) -> Iterator[Finding]:
    """Ranks that hold up the others, communication that takes more of a step than it should, losses that are none.

    Where nodes are ``emulated`` their ranks share processors, and a rank has to be slower by more to be critical.
    """
    large = LARGE_EMULATED_EXCESS if emulated else LARGE_EXCESS
    for point in benchmark.workload:
        if isinstance(point, TrainingPoint):
            if point.known_facts.data not in (None, *MADE_DATA) and point.data_share > HIGH_DATA_SHARE:
                yield _loading(point)
            if not all(map(isfinite, point.losses)):
                yield _diverged(point)
            yield from growth_findings(point, node_of)
            for straggler in point.stragglers:
                yield _straggler(point, straggler, node_of(straggler.rank), large)
            if point.overhead_band == "high":
                yield _overhead(point)


def _diverged(point: TrainingPoint) -> Finding:
    first = next(step for step, loss in enumerate(point.losses) if not isfinite(loss))
    when = "from the first timed step on" if first == 0 else f"in timed step {first + 1} of {len(point.losses)}"
    return LOSS_NOT_FINITE.finding(
        confidence="certain",
        summary=f"{point.label}: the loss is not a finite number {when}",
        explanation="The parameters are NaN or infinite by then: step times are of a training that learns nothing.",
        recommendations=LOSS_NOT_FINITE.advise(),
    )


def _loading(point: TrainingPoint) -> Finding:
    waiting = format_seconds(point.data_share * point.seconds.mean)
    return DATA_LOADING_SLOW.finding(
        confidence="likely",
        summary=f"{point.label}: {point.data_share:.0%} of a step waits for data (above {HIGH_DATA_SHARE:.0%})",
        explanation=(
            f"Of {format_seconds(point.seconds.mean)} a step, {waiting} go by before the "
            "loader has the next micro-batches."
        ),
        recommendations=DATA_LOADING_SLOW.advise(),
    )


def straggler_text(label: str, straggler: Straggler) -> str:
    """``rank 2 holds up ddp tiny: its own time is 51.3% above the others'``."""
    return f"rank {straggler.rank} holds up {label}: its own time is {straggler.excess:.1%} above the others'"


def _straggler(point: TrainingPoint, straggler: Straggler, node: str | None, large_excess: float) -> Finding:
    """Critical where the whole interval of its excess is above what is large."""
    from diagnostics.rules import rule_named  # which brings the parsers of logs

    rank, excess, rule = straggler.rank, straggler.excess, rule_named("straggler")
    errors = straggler.standard_errors
    least = excess * (1 - NORMAL_95 / errors) if errors else 0.0
    return rule.finding(
        severity="critical" if least > large_excess else "warning",
        confidence="likely",
        summary=straggler_text(point.label, straggler),
        explanation=(
            f"Its own work takes {format_seconds(straggler.own_seconds)} a step and it waits "
            f"{format_seconds(straggler.wait_seconds)} for the others, which wait "
            f"{format_seconds(straggler.others_wait_seconds)} ({errors:.0f} standard errors)."
        ),
        ranks=(rank,),
        hosts=(node,) if node else (),
        recommendations=rule.run_advice(),
    )


def _overhead(point: TrainingPoint) -> Finding:
    from diagnostics.rules import rule_named  # which brings the parsers of logs

    share, rule = point.overhead or 0.0, rule_named("sync-overhead")
    return rule.finding(
        confidence="likely",
        summary=f"{point.label}: {share:.0%} of a step waits for communication (high, above {HIGH_OVERHEAD:.0%})",
        explanation=(
            f"Of {format_seconds(point.seconds.mean)} a step, "
            f"{format_seconds(max(point.communication.best_exposed or 0.0, 0.0))} are communication that no "
            "computation hides."
        ),
        recommendations=rule.run_advice(),
    )
