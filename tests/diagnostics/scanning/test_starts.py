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


def _lines(pid: int, *what: str) -> bytes:
    head, said = f"n1:{pid}:{pid + 9} [0] NCCL INFO comm 0x1 rank", "nranks 2 cudaDev 0 busId 1000 commId 0xa"
    return "\n".join(f"{head} {rank} {said} - Init {one}" for one in what for rank in range(2)).encode()


def _late(gate: Gate, starts: Starts, block: bytes) -> list[int]:
    """The processes of the starts found in a block behind which no more of them are read one by one."""
    gate.skips_init, gate.tells_starts = True, starts.told
    list(gate.candidates(block))
    return [start.process[1] for start in starts.of(block, 0, gate.starts)]


@pytest.mark.parametrize("scan_from_bytes", [0, 2**40])
def test_where_starts_are_told_completions_are_not_looked_for_late(scan_from_bytes: int) -> None:
    gate, starts = Gate(scan_from_bytes=scan_from_bytes, detail_left=0), Starts(left=0)
    assert _late(gate, starts, _lines(1, "START", "COMPLETE")) == [1]
    assert _late(gate, starts, _lines(2, "COMPLETE")) == []
    assert _late(gate, starts, _lines(1, "START") + b"\n" + _lines(3, "START", "COMPLETE")) == [3]


@pytest.mark.parametrize("scan_from_bytes", [0, 2**40])
def test_where_no_start_is_told_completions_are_looked_for_to_the_end(scan_from_bytes: int) -> None:
    gate, starts = Gate(scan_from_bytes=scan_from_bytes, detail_left=0), Starts(left=0)
    found = [_late(gate, starts, _lines(pid, "COMPLETE")) for pid in (1, 1, 2)]
    assert (found, starts.told) == ([[1], [], [2]], False)
