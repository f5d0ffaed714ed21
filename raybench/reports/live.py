"""Progress on a terminal: benchmark, size and ranks, a bar, done of total, elapsed and left.

It redraws twice a second and no faster: on an embedded cluster it shares the CPUs with what is being measured.
"""

from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from raybench.reports.text import format_left

REFRESHES_PER_SECOND = 2.0


class LivePainter:
    """Rich's progress bar. Colours follow NO_COLOR."""

    def __init__(self, stream: IO[str]) -> None:
        self._console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)
        self._shown: tuple[Progress, TaskID] | None = None

    def begin(self, total_steps: int, title: str) -> None:
        """Print the title and start the bar below it."""
        self.end()
        self._console.print(Text(title, style="bold"))
        progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("elapsed", markup=False),
            TextColumn("{task.fields[left]}", markup=False),
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            expand=True,
            transient=True,
        )
        self._shown = (progress, progress.add_task("", total=total_steps, left=""))
        progress.start()

    def paint(self, done: int, benchmark: str, text: str, left_seconds: float | None) -> None:  # noqa: ARG002
        """Move the bar and change its text."""
        if self._shown is not None:
            progress, task = self._shown
            left = f"{format_left(left_seconds)} left" if left_seconds is not None else ""
            progress.update(task, completed=done, description=text, left=left)

    def advance(self, done: int, share: float, text: str, left_seconds: float | None) -> None:
        """Move the bar within the step and change its text."""
        if self._shown is not None:
            progress, task = self._shown
            left = f"{format_left(left_seconds)} left" if left_seconds is not None else ""
            progress.update(task, completed=done + share, description=text, left=left)

    def note(self, text: str) -> None:
        """Print above the bar."""
        self._console.print(Text(text))

    def end(self) -> None:
        """Take the bar away."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None
