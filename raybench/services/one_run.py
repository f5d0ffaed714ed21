"""One run from its configuration to its result and what explains it, all of it kept in the run's folder."""

import contextlib
import dataclasses
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from raybench.config import LAUNCHED, RunConfig
from raybench.documents.diagnosis import Diagnosis
from raybench.documents.plain import notebook_frame
from raybench.documents.run.result import RunResult, result_file
from raybench.errors import UsageError
from raybench.installation import install_advice
from raybench.run_folder import RunFolder, new_run_id
from raybench.services.run_files import attempt

if TYPE_CHECKING:
    from raybench.execution.record import RunRecord
    from raybench.execution.supervisor import Display, Listener
    from raybench.expectations.baseline import Baseline
    from raybench.processes.interrupt import Interrupt
    from raybench.services.tracking.feed import RunFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that has ended, complete or not, and what was kept of it.

    ``diagnosis`` is that of its NCCL logs, None where there are none. ``kept`` is false
    where result.json could not be written. ``remarks`` say what could not be kept or made, and what is not installed.
    ``store``: where more can be written of it.
    """

    result: RunResult
    diagnosis: Diagnosis | None
    folder: Path
    report: Path | None
    kept: bool
    remarks: tuple[str, ...]
    store: RunFolder | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return self.result.exit_code

    def _repr_html_(self) -> str:
        """The report, where a notebook shows the run."""
        import raybench

        return notebook_frame(lambda: raybench.html(self.result, self.diagnosis))


def check_libraries(config: RunConfig | None = None) -> None:
    """Raises UsageError where what measures is not installed. Ranks that a launcher started need no Ray."""
    with_ray = config is None or config.address != LAUNCHED
    wanted = ("ray", "torch", "numpy") if with_ray else ("torch", "numpy")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"this command needs {' and '.join(missing)}: {install_advice('run')}")
    if config is not None and config.track:
        from raybench.trackers.registry import check_trackers

        check_trackers(config.track)


def baseline_at(path: str | None) -> "Baseline | None":
    """The earlier run to compare with. Raises UsageError where it cannot be used, before anything is measured."""
    if path is None:
        return None
    from raybench.expectations.baseline import baseline_of

    place = result_file(Path(path))
    return baseline_of(RunResult.read(place, "the baseline"), f"the baseline {place}")


def run_once(
    config: RunConfig,
    *,
    interrupt: "Interrupt",
    display: "Callable[[], Display]",
    amend: Callable[[RunResult], RunResult] = lambda result: result,
) -> FinishedRun:
    """The same without what follows from its findings. ``amend``: what else is to be said of it."""
    check_libraries(config)
    baseline = baseline_at(config.baseline)
    run_id = new_run_id()
    with contextlib.ExitStack() as undisturbed, contextlib.ExitStack() as tracked:
        folder = RunFolder(config.output_dir, run_id)
        with _nothing_left(folder), contextlib.closing(folder):
            feed = _feed_of(config, folder, run_id, tracked)
            record = measured(config, run_id, folder, interrupt, undisturbed, display, feed)
        from raybench.expectations.annotate import with_expectations
        from raybench.peers.findings import with_peers

        result = amend(record.result())
        result = attempt(folder, "the expected bandwidths", lambda: with_expectations(result, baseline)) or result
        result = attempt(folder, "the comparison of ranks and pairs", lambda: with_peers(result)) or result
        result = attempt(folder, "the time line of the nodes", lambda: _with_samples(result)) or result
        if feed is not None:
            result = replace(result, trackers=feed.outcomes())
        finished = keep(result, record.logs, folder, undisturbed=lambda: undisturbed)
        return finished if feed is None else _tracked(finished, feed, folder, interrupt)


def _feed_of(config: RunConfig, folder: RunFolder, run_id: str, tracked: contextlib.ExitStack) -> "RunFeed | None":
    """What tells the run's trackers of it, where there are any. Their processes are begun before the driver's."""
    if not config.track:
        return None
    from raybench.services.tracking.feed import RunFeed

    feed = RunFeed(config, folder, run_id)
    tracked.callback(feed.close)
    return feed


def _tracked(finished: FinishedRun, feed: "RunFeed", folder: RunFolder, interrupt: "Interrupt") -> FinishedRun:
    """The run handed over to its trackers, and what became of it there. Any further signal ends the waiting for them.

    Its report is made again only where something went wrong: else it says already where the run is seen.
    """
    with interrupt.counting():
        before = interrupt.received
        outcomes = feed.conclude(finished.result, lambda: interrupt.received > before, interrupted=before > 0)
        result = replace(finished.result, trackers=outcomes)
        if any(one.problem for one in outcomes):
            finished = keep_again(finished, result, folder)
        elif finished.kept:
            attempt(
                folder,
                "what became of the run in its trackers",
                lambda: folder.write_json("result.json", result.to_json()),
            )
    told = tuple(f"tracked by {one.tracker}: {one.as_told}" for one in outcomes)
    return dataclasses.replace(finished, result=result, remarks=(*finished.remarks, *told))


def _with_samples(result: RunResult) -> RunResult:
    """The run with what its samples show, where there are any."""
    from raybench.timeline.judging import with_samples

    return result if result.node_samples is None else with_samples(result, result.node_samples)


def keep(
    result: RunResult,
    logs: Mapping[str, bytes],
    folder: RunFolder,
    *,
    undisturbed: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
) -> FinishedRun:
    """Write the result, then what explains it. The result and the logs are written ``undisturbed`` by signals."""
    from raybench.services import run_files

    result = replace(result, problems=tuple(folder.problems))
    with undisturbed():
        kept = run_files.write_result(result, folder)
        folder.write_logs(logs)
    attempt(folder, "the samples of the nodes", lambda: run_files.write_samples(result, folder))
    diagnosis = attempt(folder, "the diagnosis of the logs", lambda: run_files.write_diagnosis(folder))
    result = _with_log_findings(result, diagnosis, folder)
    return _explained(result, diagnosis, folder, kept=kept)


def keep_again(finished: FinishedRun, result: RunResult, folder: RunFolder) -> FinishedRun:
    """The same run once more is known of it: its result and all that shows it are written again."""
    from raybench.services import run_files

    kept = run_files.write_result(result, folder)
    return _explained(result, finished.diagnosis, folder, kept=kept)


def _explained(result: RunResult, diagnosis: Diagnosis | None, folder: RunFolder, *, kept: bool) -> FinishedRun:
    """What shows a result, in the other formats."""
    from raybench.services import run_files

    attempt(folder, "result.csv", lambda: run_files.write_csv(result, folder))
    result = _with_problems(result, folder)
    report = attempt(folder, "report.html", lambda: run_files.write_html(result, diagnosis, folder))
    result = _with_problems(result, folder)
    attempt(folder, "summary.json", lambda: run_files.write_summary(result, folder))
    result = _with_problems(result, folder)
    return FinishedRun(
        result=result,
        diagnosis=diagnosis,
        folder=folder.path,
        report=report,
        kept=kept,
        remarks=(*folder.problems, *folder.notes),
        store=folder,
    )


@contextlib.contextmanager
def _nothing_left(folder: RunFolder) -> Iterator[None]:
    """Leave no empty folder where somebody stops the command before the run hears of it."""
    try:
        yield
    except KeyboardInterrupt:
        if not folder.has_samples:
            folder.discard()
        raise


def measured(  # noqa: PLR0917 - the last is for few
    config: RunConfig,
    run_id: str,
    folder: RunFolder,
    interrupt: "Interrupt",
    undisturbed: contextlib.ExitStack,
    make_display: "Callable[[], Display]",
    listener: "Listener | None" = None,
) -> "RunRecord":
    """Do the run. Trouble that leaves something to report goes on record; invalid usage is raised and leaves no folder.

    From the driver's start to the end of ``undisturbed`` signals are only counted: one that came while what was
    started is ended would cost the result.
    """
    from raybench.execution.ranks.prestarted_rank_host import prestarted_rank_host, workplace
    from raybench.execution.run_guard import run_guard

    # what is kept warm belongs to its node actor; else importing torch is begun first, as it takes longest
    with (
        workplace() as place,
        run_guard(place) as guard,
        contextlib.nullcontext()
        if config.keep_warm or config.address == LAUNCHED
        else prestarted_rank_host(place) as early,
        contextlib.closing(make_display()) as display,
    ):
        from raybench.execution.account import Account
        from raybench.execution.driver import start_driver
        from raybench.execution.record import RunRecord
        from raybench.execution.supervisor import Supervisor

        record = RunRecord(config=config, run_id=run_id)
        undisturbed.enter_context(interrupt.counting())
        driver = start_driver(record, early, place)
        supervisor = Supervisor(
            account=Account(record=record),
            driver=driver,
            display=display,
            journal=folder,
            interrupt=interrupt,
            guard=guard,
            listener=listener,
        )
        refusal = supervisor.watch()
    if refusal is not None:
        folder.discard()
        raise refusal
    return supervisor.record


def _with_log_findings(result: RunResult, diagnosis: Diagnosis | None, folder: RunFolder) -> RunResult:
    """The result with what its logs say counted for its verdict, and written again where that changes it."""
    found = diagnosis.findings if diagnosis else ()
    return _written_again(result, replace(result, log_findings=found) if found else result, folder)


def _with_problems(result: RunResult, folder: RunFolder) -> RunResult:
    """The same with what could not be kept or made of it so far."""
    return _written_again(result, replace(result, problems=tuple(folder.problems)), folder)


def _written_again(before: RunResult, result: RunResult, folder: RunFolder) -> RunResult:
    """The result, written again where its verdict is another: the exit code and the file say the same."""
    if result.conclusion != before.conclusion:
        attempt(folder, "the verdict in result.json", lambda: folder.write_json("result.json", result.to_json()))
    return result
