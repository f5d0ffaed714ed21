"""What programs of nccl-tests printed, as a side: their tables, and the ranks that they list. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from raybench.comparison.run_side import ALLOWED, ALLOWED_SHORT
from raybench.comparison.side import FigureKey, Side, SideFigure, blocks_of
from raybench.comparison.tools.ended import is_wrong, outcomes_of, status_of_text
from raybench.expectations.baseline import LEAST_BYTES
from raybench.units import exact_bytes

_HEADINGS = re.compile(r"^#?\s+size\s+count\s+type\b(?P<rest>.*\btime\s+algbw\s+busbw.*)$", re.MULTILINE)
_RANK = re.compile(
    r"^#\s+Rank\s+(?P<rank>\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(?P<host>\S+)\s+device\s+\d+\s+\[\S+\]\s+(?P<gpu>.*?)\s*$",
    re.MULTILINE,
)
_PROGRAM = re.compile(r"\b(?P<name>[a-z]+(?:_[a-z]+)*)_perf\b")
_SETTING = re.compile(
    r"(?P<name>[A-Za-z]+(?: iters)?): ?(?P<value>[^\s(]+)|\b(?P<key>n[TG]\w+|\w+Bytes) (?P<number>\d+)"
)
_VERSION = re.compile(
    r"\b(?P<rccl>RCCL|ROCm|HIP) version\s*: (?P<of_amd>\S+)|\bNCCL version (?P<nccl>\d[\w.+]*)"
    r"|\bnccl-library=(?P<code>\d{4,6})\b"
    r"|^# nccl-tests version (?P<tests>\S+)",
    re.MULTILINE,
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", re.IGNORECASE)
KIND = "result of nccl-tests"
PLACES = ("out of place", "in place")


def is_nccl_tests(text: str) -> bool:
    """Whether a text holds a table of nccl-tests."""
    return _HEADINGS.search(text) is not None


def nccl_tests_side(name: str, text: str) -> Side:
    """A side of the tables of a job, such as this of nccl-tests 2.13::

        #     size      count   type  redop  root   time    algbw  busbw #wrong   time    algbw  busbw #wrong
          67108864   16777216  float    sum    -1  42.10  1594.02   0.00      0  41.90  1601.64   0.00      0

    Each time is a mean over iterations that the program does not print. A program that was started again has its times
    as those of another launch.
    """
    found = [*_figures(text)]
    ranks = {one["rank"]: (one["host"], one["gpu"]) for one in _RANK.finditer(text)}
    return Side(
        name=name,
        kind=KIND,
        run_ids=(name,),
        machine=machine_of(list(ranks.values())),
        configuration=dict(_settings(text)),
        environment=dict(_versions(text)),
        outcomes=outcomes_of(status_of_text(text, len(_HEADINGS.findall(text))), (wrong for *_, wrong in found)),
        figures=launched((key, figure) for key, figure, _ in found),
    )


def machine_of(ranks: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    """From the host and the GPU of each rank."""
    return {
        "nodes": str(len({host for host, _ in ranks}) or "unknown"),
        "ranks": str(len(ranks) or "unknown"),
        "GPUs": ", ".join(sorted({gpu for _, gpu in ranks})) or "unknown",
    }


def launched(found: Iterable[tuple[FigureKey, SideFigure]]) -> Mapping[FigureKey, SideFigure]:
    """Figures of one run by their keys: one that comes again was launched again."""
    figures: dict[FigureKey, SideFigure] = {}
    for key, one in found:
        figures[key] = _again(figures[key], one) if key in figures else one
    return figures


def _again(before: SideFigure, one: SideFigure) -> SideFigure:
    return replace(before, runs=((*before.runs[0], *one.runs[0]),), problem=before.problem or one.problem)


def version_text(code: int) -> str:
    """``2.28.7`` of NCCL's number 22807; up to 2.8 it was 2708 of 2.7.8."""
    major, rest = divmod(code, 1000 if code < 10_000 else 10_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _versions(text: str) -> Iterator[tuple[str, str]]:
    for found in _VERSION.finditer(text):
        if found["tests"]:
            yield "nccl-tests", found["tests"]
        elif found["rccl"]:
            yield found["rccl"].lower(), found["of_amd"]
        else:
            yield "nccl", found["nccl"] or version_text(int(found["code"]))


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Of the line that begins with ``# nThread``."""
    line = next((line for line in text.splitlines() if line.startswith("# nThread")), "")
    for found in _SETTING.finditer(line):
        yield (found["name"], found["value"]) if found["name"] else (found["key"], found["number"])


def _figures(text: str) -> Iterator[tuple[FigureKey, SideFigure, bool | None]]:
    """Each with whether its data was wrong; None where nobody looked."""
    for program, headings, words in _rows(text):
        said = dict(zip(headings[:6], words[:6], strict=True))
        for place, row in zip(PLACES, _halves(headings, words), strict=False):
            wrong = next((is_wrong(word) for name, word in row if name in ("#wrong", "error")), None)
            size, seconds = int(words[0][:19]), _number(row[0][1]) / 1e6
            if (figure := timed(size, (seconds,), is_wrong=bool(wrong))) is not None:
                yield key_of(program, said.get("type", ""), said.get("redop", ""), place, size), figure, wrong


def key_of(program: str, dtype: str, operation: str, place: str, size: int) -> FigureKey:
    """``all_reduce float sum in place, 64M``; ``program`` is all_reduce."""
    variation = [word for word in (dtype, operation) if word and word != "none"]
    return FigureKey(benchmark=" ".join([program, *variation, place]), point=exact_bytes(size))


def _rows(text: str) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
    """Lines of the tables, with the program that was named last before them and the headings above them."""
    program, headings = "nccl-tests", list[str]()
    for line in text.splitlines():
        if found := _HEADINGS.match(line):
            headings = ["size", "count", "type", *found["rest"].split()]
        elif headings and (words := line.split()) and words[0].isdecimal():
            given = words[:-1] if headings[-1] == "timestamp" else words  # a date, and the time of day
            if len(given) == len(headings):
                yield program, headings, given
        elif named := _PROGRAM.search(line):
            program = named["name"]


def _halves(headings: Sequence[str], words: Sequence[str]) -> Iterator[Sequence[tuple[str, str]]]:
    """The columns of each place: from one ``time`` to the next."""
    starts = [index for index, heading in enumerate(headings) if heading == "time"]
    for start, end in zip(starts, [*starts[1:], len(headings)], strict=True):
        yield [*zip(headings[start:end], words[start:end], strict=True)]


def timed(message_bytes: int, samples: Sequence[float], *, is_wrong: bool) -> SideFigure | None:
    """The figure of one launch, in seconds: the mean of its iterations, as the table has it. None where one is none."""
    if not message_bytes or not samples or not all(0 < one < 1e6 for one in samples):
        return None
    allowed = ALLOWED if message_bytes >= LEAST_BYTES else ALLOWED_SHORT
    runs = ((blocks_of(tuple(samples)),),)
    problem = "wrong data" if is_wrong else ""
    return SideFigure(unit="s", runs=runs, is_mean=True, allowed=allowed, order=message_bytes, problem=problem)


def _number(word: str) -> float:
    return float(word) if _NUMBER.fullmatch(word) else 0.0
