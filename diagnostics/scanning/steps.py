"""Whether files end with steps of a training, or with the throughput of a server: then the job works.

Only the end of what is read is looked at, so that it costs nothing on a big log.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from diagnostics.parsers import levels
from diagnostics.parsers.base import front_and_end
from diagnostics.parsers.last_errors import LastError, ends_in_traceback, last_errors, last_hints, names_trouble
from diagnostics.parsers.steps import (
    TITLE_OF_PERFTEST,
    DoneStep,
    ends_table,
    is_not_finite,
    is_row,
    is_step,
    is_wrong_row,
    progress_of,
)
from diagnostics.scanning.prefix import clean

TAIL_BYTES = 2**13
MAX_FILES = 1000
MAX_CHARACTERS = 2000  # of a line
MIN_STEPS = 2  # one line may tell of a step that is planned; a row of a table tells of what was measured
_HINTS = (b"oss", b"/s", b"er second", b"er_second", b"per_sec", b"per iteration", b"hroughput", b"PerSec")
_ROWS = (b"float", b"half", b"int", b"double", TITLE_OF_PERFTEST.encode())


class _Shown(NamedTuple):
    """What the end of a file shows: its last step, the last row of a table without its end, and all steps."""

    last: str | None
    open_table: str | None
    done: tuple[DoneStep, ...]


_NOTHING = _Shown(None, None, ())


@dataclass(slots=True)
class Steps:
    """Keeps the end of each file, and says what it shows."""

    _tails: dict[str, bytes] = field(default_factory=dict)

    def take(self, file: str, block: bytes) -> None:
        """Keep the end of a file's next block of complete lines."""
        end = _end_of(block)
        if len(end) < TAIL_BYTES and (before := self._tails.get(file)):
            end = (before + b"\n" + end)[-TAIL_BYTES:]
        if file in self._tails or len(self._tails) < MAX_FILES:
            self._tails[file] = end

    def forget(self, file: str) -> None:
        """Pass over lines of a file that are not looked at: what was its end is none."""
        self._tails.pop(file, None)

    def shown(self) -> dict[str, str]:
        """The last step of each file that ends with steps, as its line tells it."""
        return {file: last for file, tail in self._tails.items() if (last := _read(tail).last) is not None}

    def done(self) -> dict[str, tuple[DoneStep, ...]]:
        """The steps at the end of each file, whatever stands behind them."""
        return {file: done for file, tail in self._tails.items() if (done := _read(tail).done)}

    def open_tables(self) -> dict[str, str]:
        """Files whose last table has no end, whatever stands behind its last row: the next size may hang."""
        return {file: row for file, tail in self._tails.items() if (row := _read(tail).open_table) is not None}

    def torn_tracebacks(self) -> frozenset[str]:
        """Files that end inside a traceback, before its exception."""
        return frozenset(
            file for file, tail in self._tails.items() if ends_in_traceback(tail.decode("utf-8", "replace"))
        )

    def errors(self) -> dict[str, tuple[LastError, ...]]:
        """The errors that files end with."""
        ends = {file: last_errors(_last_lines(tail)) for file, tail in self._tails.items()}
        return {file: found for file, found in ends.items() if found}

    def hints(self) -> dict[str, tuple[LastError, ...]]:
        """What tells of a failure at the end of files, in any words: worth asking where nothing else is told."""
        ends = {file: last_hints(_last_lines(tail)) for file, tail in self._tails.items()}
        return {file: found for file, found in ends.items() if found}


def _end_of(block: bytes) -> bytes:
    """The last lines of a block; of a long one, which would leave no room for those before it, its front and end."""
    near = block[-(TAIL_BYTES + MAX_CHARACTERS + 1) :]
    if len(max(near.split(b"\n"), key=len)) <= MAX_CHARACTERS:
        return block[-TAIL_BYTES:]
    lines: list[bytes] = []
    stop, room = len(block), TAIL_BYTES
    while stop >= 0 and room > 0:
        start = block.rfind(b"\n", 0, stop) + 1
        line = _shortened(block, start, stop)
        lines.append(line)
        stop, room = start - 1, room - len(line) - 1
    return b"\n".join(reversed(lines))[-TAIL_BYTES:]


def _shortened(block: bytes, start: int, stop: int) -> bytes:
    """A line of a block; a bar of progress draws many into one, of which the last count."""
    if stop - start <= MAX_CHARACTERS or block.find(b"\r", start, stop - 1) >= 0:
        return block[max(start, stop - TAIL_BYTES) : stop]
    return block[start : start + MAX_CHARACTERS // 2] + b" ... " + block[stop - MAX_CHARACTERS // 3 : stop]


def _last_lines(tail: bytes) -> list[tuple[int, str]]:
    """The last lines, each with how many follow it; what a bar of progress prints into one line stands apart."""
    whole = tail.decode("utf-8", "replace").split("\n")
    apart = ((len(whole) - number, part) for number, line in enumerate(whole, 1) for part in line.splitlines())
    return [(behind, _clean(part)) for behind, part in apart if part.strip()]


@lru_cache(maxsize=MAX_FILES)  # asked several times of each file
def _read(tail: bytes) -> _Shown:
    """The last line that tells of a step, where there are several and nothing of trouble or of NCCL behind them."""
    if not any(hint in tail for hint in (*_HINTS, *_ROWS)):
        return _NOTHING
    steps: list[str] = []
    done: list[DoneStep] = []
    titled, table = TITLE_OF_PERFTEST.encode() in tail, ""
    text = tail.decode("utf-8", "replace")
    behind = len(text.removesuffix("\n").split("\n")) - 1
    for whole in text.splitlines(keepends=True):  # what a bar prints into one line stands apart
        line = front_and_end(whole.rstrip("\r\n"), MAX_CHARACTERS)
        if is_wrong_row(line):
            return _Shown(None, None, tuple(done))
        if is_not_finite(line):
            steps.clear()  # whether this was passed over or ended the training, the next steps tell
        elif (row := is_row(line, titled=titled)) or is_step(line):
            steps.append(line.strip())
            table = line.strip() if row else ""
            done.append(DoneStep(behind, line.strip(), row))
        elif ends_table(line):
            table = ""
        elif _interrupts(line):
            steps.clear()
        behind -= whole.endswith("\n")
    if len(set(map(progress_of, steps))) < (1 if table else MIN_STEPS):
        return _Shown(None, table or None, tuple(done))
    return _Shown(steps[-1], table or None, tuple(done))


def _interrupts(line: str) -> bool:
    """Whether steps before a line do not show what the job does behind it: it is NCCL's, or names trouble."""
    if "CCL" in line:
        return "Destroy COMPLETE" not in line
    return names_trouble(line) or (("{" in line or "\x1b" in line) and names_trouble(_clean(line)))


def _clean(line: str) -> str:
    """A line without colours and its frame; an object of JSON as a logger in plain text gives its level."""
    line = front_and_end(line, MAX_CHARACTERS)
    text = clean(line.encode())
    level = levels.of_json(line)
    return f"{level}: {text}" if level else text
