"""Mutated logs: no crash, no hang. More with RAYBENCH_FUZZ_EXAMPLES=1000000."""

import io
import os
import random
import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnostics.engine import Reading
from diagnostics.findings import LineCounts
from diagnostics.output import FORMATS, render
from diagnostics.reader import split_stream

EXAMPLES = int(os.environ.get("RAYBENCH_FUZZ_EXAMPLES", "150"))
LINES = [
    line
    for log in sorted((Path(__file__).parent / "cases").glob("*/*/input.log"))
    for line in log.read_bytes().split(b"\n")
]
PIECES = [
    b"\x00",
    b"\xff\xfe",
    b"\x1b[31m",
    b"\r",
    b"NCCL WARN ",
    b"NCCL INFO ",
    b"h:1:2 [0] ",
    b"9" * 40,
    b" via NET/",
    b"-> ",
    b"\n",
]


def mutated(seed: int) -> bytes:
    """Some lines of the cases, cut, doubled, spliced and peppered."""
    random_ = random.Random(seed)
    lines = random_.choices(LINES, k=random_.randint(1, 40))
    data = bytearray(b"\n".join(lines))
    for _ in range(random_.randint(0, 12)):
        place = random_.randint(0, len(data))
        match random_.randint(0, 3):
            case 0:
                data[place : place + random_.randint(1, 30)] = b""
            case 1:
                data[place:place] = random_.choice(PIECES)
            case 2:
                data[place:place] = data[place : place + random_.randint(1, 200)]
            case _:
                data[place : place + 1] = bytes([random_.randint(0, 255)])
    return bytes(data)


def diagnose(data: bytes) -> None:
    reading = Reading()
    for batch in split_stream(io.BytesIO(data), "fuzz", 4096):
        reading.feed(batch)
    reading.flush()
    diagnosis = reading.diagnosis()
    assert isinstance(diagnosis.lines, LineCounts)
    assert not [unsure for unsure in diagnosis.rules_cannot_tell if "error in the rule" in unsure.why], (
        diagnosis.rules_cannot_tell
    )
    for output_format in FORMATS:
        render(diagnosis, output_format)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(min_value=0, max_value=2**62))
def test_mutated_logs_never_crash(seed: int) -> None:
    diagnose(mutated(seed))


@settings(max_examples=min(EXAMPLES, 1000), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=2000))
def test_arbitrary_bytes_never_crash(data: bytes) -> None:
    diagnose(data)


def test_long_hostile_lines_do_not_hang() -> None:
    started = time.perf_counter()
    for piece in (
        b"NCCL INFO ",
        b"[",
        b"a:1:2 [0] NCCL WARN ",
        b"NET/IB : Using ",
        b"(",
        b"1 -> ",
        b"x" * 50 + b"Error: ",
        b":1:1 ",
    ):
        diagnose(b"h:1:2 [0] NCCL WARN " + piece * (2_000_000 // len(piece)))
    assert time.perf_counter() - started < 60
