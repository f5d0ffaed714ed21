"""A study on one screen: the verdict, a row a variant, the remarks that matter. Pure."""

from collections.abc import Iterator

from raybench.documents.study.network import NetworkAnswer
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.result import StudyResult
from raybench.documents.study.row import TrainingRow
from raybench.documents.study.scaling import ModeAnswer, ScalingAnswer
from raybench.documents.study.strategy import StrategyAnswer
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.run.screen import table_of
from raybench.reports.model import Report, notes_of
from raybench.reports.study.cells import gb_per_second, interval, memory, rate, ratio_share, seconds, times
from raybench.reports.study.view import emulated_study_notice, study_title
from raybench.reports.text import count_of, printable
from raybench.reports.workloads.display import Row

_MOST_REMARKS = 3


def study_screen(study: StudyResult, _: Asked) -> Report:
    """The screen."""
    conclusion, title = study.conclusion, study_title(study)
    said = [*study.problems, *study.remarks]
    told = [text for text in said if text not in conclusion.reason]
    more = [f"and {len(told) - _MOST_REMARKS} more remarks: --full"] if len(told) > _MOST_REMARKS else []
    notice = emulated_study_notice(study)
    same = [one.text for one in study.losses if one.verdict == "same"]
    notes = [*told[:_MOST_REMARKS], *more, *([notice] if notice else [])]
    return Report(
        name=title,
        title=title,
        verdict=conclusion.verdict,
        reason=conclusion.reason,
        lead="",
        when="",
        blocks=(table_of(_rows(study)), *notes_of(same), *notes_of(notes, tone="warn")),
    )


def _rows(study: StudyResult) -> Iterator[Row]:
    answer = study.answer
    if isinstance(answer, NetworkAnswer):
        yield from _network_rows(answer)
    elif isinstance(answer, ScalingAnswer):
        for mode in answer.modes:
            yield from _scaling_rows(mode)
    else:
        ratios = answer.ratios if isinstance(answer, StrategyAnswer) else {}
        for row in answer.rows:
            yield _training_row(row, ratios.get(row.variant))


def _network_rows(answer: NetworkAnswer) -> Iterator[Row]:
    speedups = {(one.network, one.label): one for one in answer.speedups}
    for row in answer.rows:
        busbw = f", {gb_per_second(row.busbw_gb_per_s).text} GB/s" if row.busbw_gb_per_s else ""
        samples = f", {rate(row.samples_per_s).text} samples/s" if row.samples_per_s else ""
        found = speedups.get((row.network, row.label))
        gain = f", {_ratio(found.ratio)} of {printable(answer.baseline)}'s speed" if found else ""
        proof = answer.proofs[row.network].verdict
        name = printable(f"{row.network}, {row.label}")
        yield name, f"{seconds(row.seconds).text}{busbw}{samples}", f"{proof}{gain}"


def _ratio(ratio: Ratio) -> str:
    """``4.87x (4.61 to 5.02x)``."""
    between = interval(ratio).text
    return f"{times(ratio).text}{f' ({between})' if between != '-' else ''}"


def _scaling_rows(mode: ModeAnswer) -> Iterator[Row]:
    for row in mode.rows:
        figures = f"{seconds(row.step_seconds).text} a step, {rate(row.samples_per_s).text} samples/s"
        speedup = f"{times(row.speedup).text}, {ratio_share(row.efficiency).text} efficient, "
        remark = f"{speedup if row.nodes != mode.base_nodes else ''}{row.band}"
        yield f"{mode.mode}, {count_of(row.nodes, 'node')}", figures, remark


def _training_row(row: TrainingRow, ratio: Ratio | None) -> Row:
    if row.failed:
        return printable(row.variant), "not measured", printable(row.failed)
    figures = f"{seconds(row.step_seconds).text} a step, {rate(row.samples_per_s).text} samples/s"
    share = f"{_ratio(ratio)} of the fastest, " if ratio else ""
    peak = memory(row.memory_bytes, row.memory_kind).text
    return printable(row.variant), figures, f"{share}peak {peak}"
