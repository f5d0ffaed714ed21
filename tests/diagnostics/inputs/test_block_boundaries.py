"""Wherever a log is cut into blocks, it says the same: a block may end inside a line, or inside a wrapped warning."""

import io
from pathlib import Path

import pytest

from diagnostics.events import Event
from diagnostics.inputs.reader import split_stream
from diagnostics.scanning.gate import Gate
from diagnostics.scanning.scanner import Scanner

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*/*/*.log"))
WRAPPED = (
    b"n1:1:2 [0] NCCL INFO Using network IB\n"
    b"n1:1:2 [0] misc/ibvwrap.cu:252 NCCL WARN Call to ibv_modify_qp failed\n"
    b"with error No such device\n"
    b"n1:1:2 [0] NCCL INFO Connected all rings\n"
    b"RuntimeError: NCCL error\nLast error:\nCall to ibv_create_qp failed\nthe end\n"
)


def events_of(text: bytes, chunk_bytes: int, gate: Gate) -> tuple[list[Event], int]:
    found: list[Event] = []
    scanner = Scanner(found.append, gate=gate)
    for batch in split_stream(io.BytesIO(text), "a.log", chunk_bytes):
        scanner.feed(batch)
    scanner.finish()
    return found, gate.lines


@pytest.mark.parametrize("detail_left", [10_000, 0], ids=["detail", "late"])
@pytest.mark.parametrize("scan_from_bytes", [0, 2**40], ids=["scan", "by_line"])
def test_a_wrapped_warning_is_whole_wherever_a_block_ends(scan_from_bytes: int, detail_left: int) -> None:
    def events(chunk_bytes: int) -> tuple[list[Event], int]:
        return events_of(WRAPPED, chunk_bytes, Gate(scan_from_bytes=scan_from_bytes, detail_left=detail_left))

    whole = events(2**20)
    assert any("failed with error No such device" in event.text for event in whole[0])
    for chunk_bytes in range(1, len(WRAPPED), 7):
        assert events(chunk_bytes) == whole, chunk_bytes


@pytest.mark.parametrize("scan_from_bytes", [0, 2**40], ids=["scan", "by_line"])
def test_every_case_says_the_same_in_blocks_of_any_size(scan_from_bytes: int) -> None:
    assert CASES
    for case in CASES:
        text = case.read_bytes()
        whole = events_of(text, 2**20, Gate(scan_from_bytes=scan_from_bytes))
        for chunk_bytes in (999,):
            assert events_of(text, chunk_bytes, Gate(scan_from_bytes=scan_from_bytes)) == whole, case
