"""The report of a study (raybench.study-result/1): its answer, plots, every trial. Pure but for its figures."""

from collections.abc import Iterator

from raybench.documents.study.result import StudyResult
from raybench.reports.builders.asked import Asked, how_to_install
from raybench.reports.facts import facts_of
from raybench.reports.model import (
    Banner,
    Block,
    Details,
    Facts,
    Figure,
    Heading,
    Report,
    Table,
    Text,
    notes_of,
    section_blocks,
)  # fmt: skip
from raybench.reports.study.view import (
    emulated_study_notice,
    order_text,
    study_sections,
    study_title,
    trial_section,
)

_TRIALS = "Each is a run with a folder and a report of its own below trials/; time is the first figure of each"
_FOOTER = (
    (
        "Ratios are geometric means over repeats in which each variant ran once; intervals are Student's, 95 "
        "%, on their logarithms. A verdict is given only where the whole interval is clear of the bound."
    ),
)


def study_report(study: StudyResult, asked: Asked) -> Report:
    """The whole report; the brief one is without trials and environment."""
    emulated = emulated_study_notice(study)
    title = study_title(study)
    return Report(
        name=f"raybench study {study.study_id}",
        title=f"{'EMULATED: ' if emulated else ''}raybench study {study.study_id}, {study.status}",
        verdict=study.conclusion.verdict,
        reason=study.conclusion.reason or title,
        lead=f"{study.status}; {title}",
        when=order_text(study),
        blocks=(*_answer(study), *(() if asked.brief else _rest(study, asked))),
        footer=_FOOTER,
    )


def study_tables(study: StudyResult, _: Asked) -> Report:
    """For a terminal: the answer alone, and how much of the study is done."""
    title = study_title(study)
    notice = emulated_study_notice(study)
    again = (Banner(text=notice, tone="emulated"),) if notice else ()
    return Report(
        name=title,
        title=title,
        verdict=study.conclusion.verdict,
        reason=study.conclusion.reason,
        lead=_status(study),
        when=order_text(study),
        blocks=(*_answer(study), *again),
        footer=_FOOTER,
    )


def _status(study: StudyResult) -> str:
    done = sum(trial.status == "complete" for trial in study.trials)
    of = f" of {len(study.trials)}" if done < len(study.trials) else ""
    return f"{study.status}: {'stopped, ' if study.stopped else ''}{done}{of} trials complete"


def _answer(study: StudyResult) -> Iterator[Block]:
    emulated = emulated_study_notice(study)
    if emulated:
        yield Banner(text=emulated, tone="emulated")
    yield from (Banner(text=problem, tone="bad") for problem in study.problems)
    yield Heading(text="Answer", anchor="answer")
    sections = study_sections(study)
    for section in sections:
        yield from section_blocks(section)
    if not sections:
        yield Text(text="Nothing was measured.")
    if study.remarks:
        yield Heading(text="Notes", level=3)
        yield from notes_of(study.remarks, tone="warn")


def _rest(study: StudyResult, asked: Asked) -> Iterator[Block]:
    yield from _plots(study, asked)
    yield Heading(text="Trials", anchor="trials")
    yield Table(grid=trial_section(study).grid, caption=_TRIALS)
    yield Heading(text="Plan and environment", anchor="environment")
    variants = tuple((variant.name, " ".join(variant.arguments)) for variant in study.variants)
    yield Details(summary="Variants", blocks=(Facts(pairs=variants),), is_open=True)
    versions = facts_of(study.environment.versions)
    if versions:
        yield Details(summary="Versions", blocks=(Facts(pairs=versions),))


def _plots(study: StudyResult, asked: Asked) -> Iterator[Block]:
    if not asked.drawn:
        yield Banner(text=f"Plots are left out, because matplotlib is not installed: {how_to_install()}", tone="warn")
        return
    from raybench.reports.study.plots import study_plots  # matplotlib's

    plots = study_plots(study)
    if plots:
        yield Heading(text="Plots", anchor="plots")
    for plot in plots:
        yield Heading(text=plot.title, level=3)
        yield Figure(plot=plot)
