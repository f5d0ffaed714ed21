"""Mutated logs: no crash, no hang. ``fuzz.py`` beside this file takes a million of them, or is guided by coverage."""

import os
import random
import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.diagnostics.mutation import diagnose, load_lines, mutated

EXAMPLES = int(os.environ.get("RAYBENCH_FUZZ_EXAMPLES", "150"))
LINES = load_lines()


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(min_value=0, max_value=2**62))
def test_mutated_logs_never_crash(seed: int) -> None:
    diagnose(mutated(random.Random(seed), LINES))


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
