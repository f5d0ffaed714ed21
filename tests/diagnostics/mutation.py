"""Mutated logs for the fuzzers: lines of real and made logs, cut, doubled, spliced, torn, wrapped and peppered."""

import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from diagnostics.findings import Diagnosis, LineCounts
from diagnostics.inputs.reader import split_stream
from diagnostics.output import FORMATS, render
from diagnostics.reading import Reading
from tests.diagnostics.score_corpus import find_corpus

PIECES = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x1b[31m",
    b"\x1b]0;title\x07",
    b"\r",
    b"\r\n",
    b"NCCL WARN ",
    b"NCCL INFO ",
    b"h:1:2 [0] ",
    b"9" * 40,
    b"-1",
    b"0x",
    b"[repeated 7x across cluster]",
    b"[rank3]:",
    b"(RayTrainWorker pid=1, ip=10.0.0.1) ",
    b" via NET/",
    b"-> ",
    b"Last error:\n",
    b"<script>",
    b"\n",
    b"\n\n",
)
Mutation = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def load_lines(*, corpus: bool = False) -> list[bytes]:
    """Lines of the rules' cases and, where asked for and there, of the labelled logs (at most 3,000 of each)."""
    logs = sorted((Path(__file__).parent / "cases").glob("*/*/input.log"))
    folder = find_corpus() if corpus else None
    logs += sorted((folder / "cases").glob("*.log")) if folder else []
    return [line for log in logs for line in log.read_bytes().split(b"\n")[:3000]]


def mutated(random_: random.Random, lines: Sequence[bytes]) -> bytes:
    """Some lines with up to a dozen changes."""
    start = random_.randrange(len(lines))
    count = random_.randint(1, 14)
    chosen = lines[start : start + count] if random_.random() < 0.6 else random_.choices(lines, k=count)
    data = bytearray(b"\n".join(chosen))
    for _ in range(random_.randint(0, 12)):
        random_.choice(MUTATIONS)(random_, data, lines)
    return bytes(data)


def _cut(random_: random.Random, data: bytearray, _lines: Sequence[bytes]) -> None:
    place = random_.randint(0, len(data))
    data[place : place + random_.randint(1, 30)] = b""


def _insert(random_: random.Random, data: bytearray, _lines: Sequence[bytes]) -> None:
    place = random_.randint(0, len(data))
    data[place:place] = random_.choice(PIECES)


def _double(random_: random.Random, data: bytearray, _lines: Sequence[bytes]) -> None:
    place = random_.randint(0, len(data))
    data[place:place] = data[place : place + random_.randint(1, 200)]


def _replace(random_: random.Random, data: bytearray, _lines: Sequence[bytes]) -> None:
    place = random_.randint(0, len(data))
    data[place : place + 1] = bytes([random_.randint(0, 255)])


def _tear(random_: random.Random, data: bytearray, lines: Sequence[bytes]) -> None:
    """Another process's line in the middle of this one."""
    place = random_.randint(0, len(data))
    line = random_.choice(lines)
    data[place:place] = line[: random_.randint(0, len(line))] + random_.choice((b"", b"\n"))


def _number(random_: random.Random, data: bytearray, _lines: Sequence[bytes]) -> None:
    """Another number in place of the next digit."""
    place = random_.randint(0, len(data))
    while place < len(data) and not 48 <= data[place] <= 57:
        place += 1
    data[place : place + 1] = random_.choice((b"0", b"-1", b"4294967296", b"99999999999999999999", b"1e9", b"x"))


def _wrap(random_: random.Random, data: bytearray, _lines: Sequence[bytes]) -> None:
    """A hard line wrap."""
    place = random_.randint(0, len(data))
    data[place:place] = random_.choice((b"\n", b"\r\n", b"\n    "))


MUTATIONS: tuple[Mutation, ...] = (_cut, _insert, _double, _replace, _tear, _number, _wrap)


def read(data: bytes) -> Reading:
    """The reading of a log in memory, in chunks that are small enough to cut it."""
    reading = Reading()
    for batch in split_stream(io.BytesIO(data), "fuzz", 4096):
        reading.feed(batch)
    reading.flush()
    return reading


def diagnose(data: bytes, *, formats: Sequence[str] = FORMATS) -> Diagnosis:
    """The diagnosis of a log in memory; fails where a rule did, and renders it in these formats."""
    diagnosis = read(data).diagnosis()
    assert isinstance(diagnosis.lines, LineCounts)
    failed = [unsure for unsure in diagnosis.rules_cannot_tell if "error in the rule" in unsure.why]
    assert not failed, failed
    for output_format in formats:
        render(diagnosis, output_format)
    return diagnosis
