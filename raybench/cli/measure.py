"""What `run` and the commands of single workloads share: do the run, keep the result, print it."""

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import replace

from raybench.cli.output import announce, printing, say
from raybench.config import RunConfig
from raybench.documents.result import RunResult, result_file
from raybench.errors import UsageError
from raybench.installation import install_advice
from raybench.reports.errors import MissingLibraryError
from raybench.run_folder import RunFolder, check_output_dir, new_run_id

if TYPE_CHECKING:
    from raybench.execution.record import Record
    from raybench.expectations.baseline import Baseline
    from raybench.processes.interrupt import Interrupt
    from raybench.reports.progress import ProgressDisplay

Made = TypeVar("Made")


def measure(config: RunConfig, *, as_json: bool, quiet: bool, full: bool = False, dry_run: bool = False) -> int:
    """Do a run and deliver it. Returns the exit status. Raises UsageError where a library is missing.

    With ``dry_run`` only what the run needs is checked.
    """
    missing = [name for name in ("ray", "torch", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"this command needs {' and '.join(missing)}: {install_advice('run')}")
    if dry_run:
        from raybench.execution.needs import check_needs

        check_needs(config)
        check_output_dir(config.output_dir)
        _baseline(config.baseline)
        say("raybench: the options are right, and this machine has what they need of it; nothing was measured")
        return 0
    where = {"auto": "looking for a Ray cluster, else embedding one here", "local": "embedding a Ray cluster here"}
    announce(where.get(config.address, f"joining the Ray cluster at {config.address}"), quiet=quiet)
    return _run(config, as_json=as_json, full=full, quiet=quiet)


def _run(config: RunConfig, *, as_json: bool, full: bool, quiet: bool) -> int:
    from raybench.processes.interrupt import Interrupt

    baseline = _baseline(config.baseline)
    run_id = new_run_id()
    with Interrupt().installed() as interrupt, contextlib.ExitStack() as undisturbed:
        folder = RunFolder(config.output_dir, run_id)
        with _nothing_left(folder), contextlib.closing(folder):
            record = _measure(config, run_id, folder, interrupt, undisturbed, quiet=quiet)
        from raybench.expectations.annotate import with_expectations
        from raybench.peers.findings import with_peers

        result = record.result()
        result = _attempt(folder, "the expected bandwidths", lambda: with_expectations(result, baseline)) or result
        result = _attempt(folder, "the comparison of ranks and pairs", lambda: with_peers(result)) or result
        return _deliver(result, record.logs, folder, as_json=as_json, full=full, undisturbed=lambda: undisturbed)


def _baseline(path: str | None) -> "Baseline | None":
    """The earlier run to compare with. Raises UsageError where it cannot be used, before anything is measured."""
    if path is None:
        return None
    from raybench.expectations.baseline import baseline_of

    place = result_file(Path(path))
    return baseline_of(RunResult.read(place, "the baseline"), f"the baseline {place}")


@contextlib.contextmanager
def _nothing_left(folder: RunFolder) -> Iterator[None]:
    """Leave no empty folder where somebody stops the command before the run hears of it."""
    try:
        yield
    except KeyboardInterrupt:
        if not folder.has_samples:
            folder.discard()
        raise


def _measure(
    config: RunConfig,
    run_id: str,
    folder: RunFolder,
    interrupt: "Interrupt",
    undisturbed: contextlib.ExitStack,
    *,
    quiet: bool,
) -> "Record":
    """Do the run. Trouble that leaves something to report goes on record; wrong use is raised, and leaves no folder.

    From the driver's start to the end of ``undisturbed`` signals are only counted: one that came while what was
    started is ended would cost the result.
    """
    from raybench.execution.ranks.prestarted_rank_host import early_host, workplace
    from raybench.execution.run_guard import run_guard

    # what is kept warm belongs to its agent; else importing torch is begun first, as it takes longest
    with (
        workplace() as place,
        run_guard(place) as guard,
        contextlib.nullcontext() if config.keep_warm else early_host(place) as early,
        contextlib.closing(_Silent() if quiet else _display()) as display,
    ):
        from raybench.execution.account import Account
        from raybench.execution.driver import start_driver
        from raybench.execution.record import Record
        from raybench.execution.supervisor import Supervisor

        record = Record(config=config, run_id=run_id)
        undisturbed.enter_context(interrupt.counting())
        driver = start_driver(record, early, place)
        supervisor = Supervisor(
            account=Account(record=record),
            driver=driver,
            display=display,
            journal=folder,
            interrupt=interrupt,
            guard=guard,
        )
        refusal = supervisor.watch()
    if refusal is not None:
        folder.discard()
        raise refusal
    return supervisor.record


def _display() -> "ProgressDisplay":
    from raybench.reports.progress import ProgressDisplay

    return ProgressDisplay()


def _deliver(
    result: RunResult,
    logs: Mapping[str, bytes],
    folder: RunFolder,
    *,
    as_json: bool,
    full: bool = False,
    undisturbed: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
) -> int:
    """Keep the result, then what explains it, then print; the exit status depends on none of the printing.

    The result and the logs are written ``undisturbed`` by signals.
    """
    result = replace(result, problems=tuple(folder.problems))
    with undisturbed():
        try:
            folder.write_json("result.json", result.to_json())
        except OSError as error:
            folder.problems.append(f"{folder.path} could not be written ({error.strerror}): the result is printed here")
            as_json = True
        folder.write_logs(logs)
    diagnosis = _attempt(folder, "the diagnosis of the logs", lambda: _diagnose(folder))
    result = _with_log_findings(result, diagnosis, folder)
    _attempt(folder, "result.csv", lambda: _write_csv(result, folder))
    result = _with_problems(result, folder)
    report = _attempt(folder, "report.html", lambda: _write_html(result, diagnosis, folder))
    result = _with_problems(result, folder)
    _attempt(folder, "summary.json", lambda: _write_summary(result, folder))
    result = _with_problems(result, folder)
    for problem in (*folder.problems, *folder.notes):
        say(f"raybench: {problem}")
    with printing("stdout"):  # last, so that the verdict is what stands above the prompt
        if as_json:
            from raybench.reports.json import render_json

            click.echo(render_json(result), nl=False)
        else:
            _print_text(result, diagnosis, folder, report, full=full)
    return exit_code(result)


def _with_log_findings(result: RunResult, diagnosis: Mapping[str, Any] | None, folder: RunFolder) -> RunResult:
    """The result with what its logs say counted for its verdict, and written again where that changes it."""
    found = tuple((diagnosis or {}).get("findings", ()))
    return _written_again(result, replace(result, log_findings=found) if found else result, folder)


def _with_problems(result: RunResult, folder: RunFolder) -> RunResult:
    """The same with what could not be kept or made of it so far."""
    return _written_again(result, replace(result, problems=tuple(folder.problems)), folder)


def _written_again(before: RunResult, result: RunResult, folder: RunFolder) -> RunResult:
    """The result, written again where its verdict is another: the exit code and the file say the same."""
    if result.conclusion != before.conclusion:
        _attempt(folder, "the verdict in result.json", lambda: folder.write_json("result.json", result.to_json()))
    return result


def _attempt(folder: RunFolder, what: str, make: Callable[[], Made]) -> Made | None:
    """What ``make`` returns; None, and a word on it, where it fails."""
    try:
        return make()
    except MissingLibraryError as error:
        folder.notes.append(str(error))
    except OSError as error:
        folder.problems.append(f"{what} could not be written ({error.strerror or error})")
    except Exception as error:  # noqa: BLE001 - the result is kept by now; nothing that explains it may cost its exit code
        folder.problems.append(f"{what} could not be made ({type(error).__name__}: {error}); what was measured is kept")
    return None


def _diagnose(folder: RunFolder) -> Mapping[str, Any] | None:
    from diagnostics.engine import diagnose_paths

    if not any((folder.path / "logs").iterdir()):
        return None
    diagnosis: Mapping[str, Any] = diagnose_paths([folder.path / "logs"]).to_json()
    _attempt(folder, "diagnosis.json", lambda: folder.write_json("diagnosis.json", diagnosis))
    return diagnosis


def _write_csv(result: RunResult, folder: RunFolder) -> None:
    from raybench.reports.csv import write_csv

    folder.release()
    write_csv(result, folder.path / "result.csv")


def _write_summary(result: RunResult, folder: RunFolder) -> None:
    from raybench.reports.summary import summary_of

    folder.write_json("summary.json", summary_of(result))


def _write_html(result: RunResult, diagnosis: Mapping[str, Any] | None, folder: RunFolder) -> Path:
    from raybench.reports.html import write_html

    write_html(result, folder.path / "report.html", diagnosis)
    return folder.path / "report.html"


def _print_text(
    result: RunResult, diagnosis: Mapping[str, Any] | None, folder: RunFolder, report: Path | None, *, full: bool
) -> None:
    logs = f"NCCL logs: {_verdict(diagnosis)} (raybench diagnose {folder.path / 'logs'})" if diagnosis else ""
    notes = [logs] if logs and result.cluster.backend == "nccl" else []
    if full:
        from raybench.reports.terminal import print_result

        print_result(result, sys.stdout, output_dir=folder.path, report_path=report, notes=notes)
    else:
        from raybench.reports.screen import print_screen

        print_screen(result, sys.stdout, place=report or folder.path, notes=notes)


def _verdict(diagnosis: Mapping[str, Any]) -> str:
    gdr = {True: "with GPUDirect RDMA", False: "without GPUDirect RDMA", None: "GPUDirect RDMA unknown"}[
        diagnosis["gdr"]
    ]
    return f"{diagnosis['verdict']}, network {diagnosis['network']}, {gdr}, {len(diagnosis['findings'])} findings"


def exit_code(result: RunResult) -> int:
    """That of the verdict; 2 where all that was asked for was skipped, since nothing of it can be measured here."""
    if result.benchmarks and all(benchmark.status == "skipped" for benchmark in result.benchmarks):
        return 2
    return result.conclusion.exit_code


class _Silent:
    def start(self, total_steps: int, title: str) -> None:
        """Say nothing."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Warnings are said all the same."""
        say(f"raybench: {text}")

    def close(self) -> None:
        """Nothing to end."""
