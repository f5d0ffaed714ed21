"""What a program of nccl-tests printed, as a side: its table, and the ranks that it lists. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from raybench.comparison.run_side import ALLOWED, ALLOWED_SHORT, counted
from raybench.comparison.side import FigureKey, Side, SideFigure
from raybench.expectations.baseline import LEAST_BYTES
from raybench.units import format_bytes

_HEADINGS = re.compile(r"^#?\s+size\s+count\s+type\b(?P<rest>.*\btime\s+algbw\s+busbw.*)$", re.MULTILINE)
_RANK = re.compile(
    r"^#\s+Rank\s+\d+\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(?P<host>\S+)\s+device\s+\d+\s+\[\S+\]\s+(?P<gpu>.*?)\s*$",
    re.MULTILINE,
)
_PROGRAM = re.compile(r"\b(?P<name>[a-z]+(?:_[a-z]+)*)_perf\b")
_SETTING = re.compile(
    r"(?P<name>[A-Za-z]+(?: iters)?): ?(?P<value>[^\s(]+)|\b(?P<key>n[TG]\w+|\w+Bytes) (?P<number>\d+)"
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", re.IGNORECASE)
_MOST_ERROR = 0.1  # up to 2.11 the column was a relative error, rounding of half precision included
_PLACES = ("out of place", "in place")


def is_nccl_tests(text: str) -> bool:
    """Whether a text holds a table of nccl-tests."""
    return _HEADINGS.search(text) is not None


def nccl_tests_side(name: str, text: str) -> Side:
    """A side of one table, such as this of nccl-tests 2.13::

        #     size      count   type  redop  root   time    algbw  busbw #wrong   time    algbw  busbw #wrong
          67108864   16777216  float    sum    -1  42.10  1594.02   0.00      0  41.90  1601.64   0.00      0

    Each time is a mean over iterations that the program does not print.
    """
    ranks = [*_RANK.finditer(text)]
    program = _PROGRAM.search(text)
    figures = dict(_figures(text, program["name"] if program else "nccl-tests"))
    return Side(
        name=name,
        kind="output of nccl-tests",
        run_ids=(name,),
        machine={
            "nodes": str(len({one["host"] for one in ranks}) or "unknown"),
            "ranks": str(len(ranks) or "unknown"),
            "GPUs": ", ".join(sorted({one["gpu"] for one in ranks})) or "unknown",
        },
        configuration=dict(_settings(text)),
        figures=figures,
    )


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Of the line that begins with ``# nThread``."""
    line = next((line for line in text.splitlines() if line.startswith("# nThread")), "")
    for found in _SETTING.finditer(line):
        yield (found["name"], found["value"]) if found["name"] else (found["key"], found["number"])


def _figures(text: str, program: str) -> Iterator[tuple[FigureKey, SideFigure]]:
    for headings, words in _rows(text):
        message_bytes = int(words[0][:19])
        said = dict(zip(headings[:6], words[:6], strict=True))
        variation = [word for name, word in said.items() if name in ("type", "redop") and word != "none"]
        for place, row in zip(_PLACES, _halves(headings, words), strict=False):
            if (figure := _figure(message_bytes, row)) is not None:
                benchmark = " ".join([program, *variation, place])
                yield FigureKey(benchmark=benchmark, point=format_bytes(message_bytes)), figure


def _rows(text: str) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Lines of the table with the headings above them."""
    headings: Sequence[str] = ()
    for line in text.splitlines():
        if found := _HEADINGS.match(line):
            headings = ["size", "count", "type", *found["rest"].split()]
        elif headings and len(words := line.split()) == len(headings) and words[0].isdecimal():
            yield headings, words


def _halves(headings: Sequence[str], words: Sequence[str]) -> Iterator[Sequence[tuple[str, str]]]:
    """The columns of each place: from one ``time`` to the next."""
    starts = [index for index, heading in enumerate(headings) if heading == "time"]
    for start, end in zip(starts, [*starts[1:], len(headings)], strict=True):
        yield [*zip(headings[start:end], words[start:end], strict=True)]


def _figure(message_bytes: int, row: Sequence[tuple[str, str]]) -> SideFigure | None:
    """Its time, the first of its columns; None where it is none. ``N/A`` as the number of wrong ones: not checked."""
    microseconds = _number(row[0][1])
    if not 0 < microseconds < 1e12 or not message_bytes:
        return None
    is_wrong = any(_number(word) > _MOST_ERROR for name, word in row if name in ("#wrong", "error"))
    allowed = ALLOWED if message_bytes >= LEAST_BYTES else ALLOWED_SHORT
    figure = counted(microseconds / 1e6, "s", "lower", allowed=allowed)
    return replace(figure, problem="wrong data") if is_wrong else figure


def _number(word: str) -> float:
    return float(word) if _NUMBER.fullmatch(word) else 0.0
