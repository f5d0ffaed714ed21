"""One scan finds the lines to read and, apart from them, where communicators start and complete."""

from pathlib import Path

import pytest

from diagnostics.inputs.speakers import Starts
from diagnostics.scanning.gate import Gate

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*/*/*.log"))


@pytest.mark.parametrize("detail_left", [0, 100])
def test_a_scan_notes_the_starts_that_a_search_finds(detail_left: int) -> None:
    pytest.importorskip("hyperscan")
    gate, found = Gate(scan_from_bytes=0, detail_left=detail_left), 0
    for block in (path.read_bytes().rstrip(b"\n") for path in CASES[::5]):
        read = list(gate.candidates(block))
        assert gate.starts is not None
        noted = list(Starts().of(block, 7, gate.starts))
        assert noted == list(Starts().of(block, 7))
        assert len(gate.starts) == block.count(b"- Init ")
        assert len(read) <= block.count(b"\n") + 1
        found += len(noted)
    assert found > 100


def test_lines_read_one_by_one_leave_starts_to_a_search() -> None:
    gate, block = Gate(scan_from_bytes=0), b"n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 busId 1000 - Init START"
    list(gate.candidates(block))
    gate.scan_from_bytes = 2**40
    list(gate.candidates(block))
    assert gate.starts is None
    assert [(start.process, start.rank) for start in Starts().of(block, 0, gate.starts)] == [(("n1", 1), 0)]
