"""Progress of a study: which trial runs, how many are left, and for how long."""

from raybench.reports.progress import ProgressDisplay
from raybench.reports.text import printable


class StudyDisplay(ProgressDisplay):
    """A line a trial, or a bar over all of them on a terminal."""

    def begin_trial(self, done: int, name: str, text: str, left_seconds: float | None) -> None:
        """Say that a trial begins after ``done`` others; ``name`` tells it from them."""
        with self._bearing_loss():
            self._painter.paint(done, name, printable(text), left_seconds)
