"""The selftest from its options to its document, kept in its folder."""

import platform
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.documents.selftest import SelftestReport
from raybench.errors import MissingLibraryError
from raybench.metadata import installed_version
from raybench.run_folder import make_output_folder, new_run_id
from raybench.services.selftest.conduct import Conduct, SelftestProgress
from raybench.services.selftest.measured import rank_table
from raybench.services.selftest.table import chosen_checks
from raybench.version import __version__
from raybench.whole_file import write_whole

if TYPE_CHECKING:
    from raybench.processes.interrupt import Interrupt

FILE, PAGE = "selftest.json", "selftest.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestOptions:
    """``only``: ids of checks, all without any. ``output``: a further file for the document.

    ``gpu``: GPUs are to be proved; a machine without one is not tested further.
    """

    gpu: bool = False
    quick: bool = False
    only: Sequence[str] = ()
    output_dir: str = "runs"
    output: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSelftest:
    """The document, and its files by what they are. ``remarks``: what could not be kept or made.

    ``kept`` is false where the document could not be written.
    """

    report: SelftestReport
    files: tuple[tuple[str, Path], ...]
    remarks: tuple[str, ...]
    kept: bool

    @property
    def exit_code(self) -> int:
        """That of the command: never 0 where the document could not be kept."""
        return self.report.exit_code if self.kept else self.report.exit_code or 3


def selftest(options: SelftestOptions, *, interrupt: "Interrupt", progress: SelftestProgress) -> FinishedSelftest:
    """Prove this installation. ``interrupt`` is installed by the caller.

    Raises UsageError, before anything is read, for a check that there is not and a folder that cannot be made.
    """
    checks = chosen_checks(options.only)
    selftest_id, started = new_run_id(), _now()
    folder = make_output_folder(Path(options.output_dir, f"selftest-{selftest_id}"))
    conduct = Conduct(
        folder=folder,
        gpu_asked=options.gpu,
        quick=options.quick,
        interrupt=interrupt,
        progress=progress,
    )
    outcomes = conduct.run(checks)
    report = SelftestReport(
        selftest_id=selftest_id,
        hostname=socket.gethostname(),
        started_at=started,
        finished_at=_now(),
        versions=_versions(),
        backend=conduct.backend,
        gpus=conduct.readings.usable_gpus,
        gpu_asked=options.gpu,
        stopped=conduct.stopped,
        driver=conduct.readings.driver,
        torch=conduct.readings.torch,
        checks=outcomes,
        ranks=rank_table(conduct.readings),
    )
    with interrupt.deferred():  # who stops it now still has what was proved
        return _kept(report, folder, options.output)


def _kept(report: SelftestReport, folder: Path, output: Path | None) -> FinishedSelftest:
    """The document written, with its page."""
    from raybench.reports.html import write_html
    from raybench.reports.json import render_json

    files, remarks = [], []
    for path in (folder / FILE, output):
        try:
            if path is not None:
                write_whole(path, render_json(report))
                files.append(("document", path))
        except OSError as error:
            remarks.append(f"{path} could not be written ({error.strerror}): the document is printed here")
    kept = not remarks
    try:
        write_html(report, folder / PAGE)
        files.append(("report", folder / PAGE))
    except (MissingLibraryError, OSError) as error:
        remarks.append(f"no HTML report: {error}")
    return FinishedSelftest(report=report, files=tuple(files), remarks=tuple(remarks), kept=kept)


def _versions() -> dict[str, str]:
    """Of what the selftest ran with; the driver's are in its reading."""
    found = {"ray": installed_version("ray"), "torch": installed_version("torch")}
    own = {"raybench": __version__, "python": platform.python_version(), "kernel": platform.release()}
    return own | {name: version for name, version in found.items() if version}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
