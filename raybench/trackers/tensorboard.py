"""TensorBoard: an event file in ``tensorboard/`` of the run's folder, for ``tensorboard --logdir runs``."""

import math
import time
from collections.abc import Iterable
from pathlib import Path

from raybench.trackers.base import Begun, Concluded, Figures, Remark
from raybench.trackers.event_file import EventFile, scalars, text

FOLDER = "tensorboard"


class TensorBoard:
    """Writes the file itself: nothing needs to be installed. It shows figures and texts, and holds no documents."""

    def __init__(self) -> None:
        self.where = ""
        self.remark = ""
        self._file: EventFile | None = None

    def begin(self, begun: Begun) -> None:
        """The settings are a text, a table."""
        now = time.time()
        folder = Path(begun.folder) / FOLDER
        self._file = EventFile(folder, now)
        self.where = str(folder)
        rows = "".join(f"| {_cell(name)} | {_cell(value)} |\n" for name, value in sorted(begun.settings.items()))
        title = f"raybench {begun.command} {begun.run_id}" + (f", of {begun.group}" if begun.group else "")
        self._write(text("settings", f"{_cell(title)}\n\n| setting | value |\n|---|---|\n{rows}", step=0, at=now))

    def log(self, figures: Iterable[Figures]) -> None:
        """A figure of a point stands at its message size, that of a step at its number."""
        for one in figures:
            self._write(scalars(one.named(), step=one.position, at=one.at))

    def remark_on(self, remark: Remark) -> None:
        """Texts of one tag, numbered."""
        self._write(text("warnings", _cell(remark.text), step=remark.number, at=remark.at))

    def conclude(self, concluded: Concluded) -> None:
        """The verdict is a text; headline figures are scalars at step 0."""
        now = time.time()
        said = f"**{_cell(concluded.verdict)}**: {_cell(concluded.reason)} (exit code {concluded.exit_code})"
        self._write(text("verdict", said, step=0, at=now))
        figures = {f"summary/{name}": value for name, value in concluded.figures.items() if math.isfinite(value)}
        if figures:
            self._write(scalars(figures, step=0, at=now))

    def close(self, exit_code: int | None) -> None:  # noqa: ARG002 - a file does not say how a run ended
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, event: bytes) -> None:
        if self._file is None:
            raise RuntimeError("no run was begun")
        self._file.write(event)


def _cell(value: str) -> str:
    """A text within a table of Markdown, where nothing of it is markup."""
    plain = " ".join(value.split()).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{letter}" if letter in "\\`*_[]|#!" else letter for letter in plain)
