"""A study as rows of a table: those of its answer, and the figures of its trials."""

from collections.abc import Iterator, Sequence

from raybench.documents.study.network import NetworkAnswer, NetworkRow
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.scaling import ScalingAnswer, ScalingRow
from raybench.documents.study.strategy import StrategyAnswer
from raybench.documents.study.sweep import SweepAnswer
from raybench.documents.study.trial import Measured, TrialResult
from raybench.documents.table import Row, columns_of, row_of

AnyAnswer = NetworkAnswer | ScalingAnswer | StrategyAnswer | SweepAnswer
_TRIAL = ("number", "block", "variant", "trial_status", "network", "gdr", "world_size", "node_count", "emulated")
TRIAL_COLUMNS = (*_TRIAL, *columns_of(Measured))


def answer_columns(answer: AnyAnswer) -> tuple[str, ...]:
    """Those of its rows; of scaling behind the ``mode``, strong or weak."""
    if isinstance(answer, ScalingAnswer):
        return ("mode", *columns_of(ScalingRow))
    return columns_of(NetworkRow if isinstance(answer, NetworkAnswer) else TrainingRow)


def answer_rows(answer: AnyAnswer) -> Iterator[Row]:
    """A row a variant (of networks: a figure over a network; of scaling: a number of nodes in a mode)."""
    if isinstance(answer, ScalingAnswer):
        yield from ({"mode": mode.mode, **row_of(row)} for mode in answer.modes for row in mode.rows)
    else:
        yield from map(row_of, answer.rows)


def trial_rows(trials: Sequence[TrialResult]) -> Iterator[Row]:
    """A row a figure of each trial, in the order of doing; one without figures for a trial that has none."""
    for one in trials:
        known = {
            "number": one.trial.number,
            "block": one.trial.block,
            "variant": one.trial.variant,
            "trial_status": one.status,
            "network": one.network,
            "gdr": one.gdr,
            "world_size": one.world_size,
            "node_count": one.node_count,
            "emulated": one.emulated,
        }
        yield from [{**known, **row_of(figure)} for figure in one.measured] or [known]
