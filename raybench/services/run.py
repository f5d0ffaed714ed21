"""``raybench run`` and the commands of workloads: a run, and what follows from whom it accuses."""

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from raybench.config import RunConfig, load_config
from raybench.run_folder import check_output_dir
from raybench.services.one_run import FinishedRun, baseline_at, check_libraries, keep, run_once

if TYPE_CHECKING:
    from raybench.execution.supervisor import Display
    from raybench.processes.interrupt import Interrupt

__all__ = ["FinishedRun", "baseline_at", "check_libraries", "check_run", "keep", "run", "run_here"]


def check_run(config: RunConfig) -> None:
    """Whether a run of this configuration can be begun; nothing is started. Raises UsageError where it cannot."""
    from raybench.execution.needs import check_needs

    check_libraries(config)
    check_needs(config)
    check_output_dir(config.output_dir)
    baseline_at(config.baseline)


def run(config: RunConfig, *, interrupt: "Interrupt", display: "Callable[[], Display]") -> FinishedRun:
    """Do a run: measure, judge, and keep the result with its reports. ``interrupt`` is installed by the caller.

    With ``isolate`` the nodes that it accuses are measured again, with ``continue_without`` it goes on without those at
    fault. Raises UsageError for a run that cannot be begun; it leaves no folder. Trouble while it measures is in the
    result.
    """
    if not config.isolates:
        return run_once(config, interrupt=interrupt, display=display)
    from raybench.services.isolation.conduct import run_isolating  # what few runs need

    return run_isolating(config, interrupt=interrupt, display=display)


def run_here(config: RunConfig | None, options: Mapping[str, Any]) -> FinishedRun:
    """A run for a program: no progress is shown, and warnings are logged. Signals are taken over in the main thread."""
    from raybench.processes.interrupt import Interrupt

    chosen = load_config(None, options) if config is None else dataclasses.replace(config, **options)
    interrupt = Interrupt()
    main = threading.current_thread() is threading.main_thread()
    with interrupt.installed() if main else contextlib.nullcontext():
        return run(chosen, interrupt=interrupt, display=_Log)


class _Log:
    """Warnings as log records of ``raybench``; progress is not shown."""

    def start(self, total_steps: int, title: str) -> None:
        """Say nothing."""

    def step(self, benchmark: str, detail: str, rank_count: int) -> None:
        """Say nothing."""

    def progress(self, done: int, total: int, text: str, left_seconds: float | None) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Log a warning."""
        logging.getLogger("raybench").warning("%s", text)

    def close(self) -> None:
        """Nothing to end."""
