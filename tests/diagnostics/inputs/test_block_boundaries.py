"""Wherever a log is cut into blocks, it says the same: a block may end inside a line, or inside a wrapped warning."""

import io
import random
from pathlib import Path

import pytest

from diagnostics.events import Event
from diagnostics.inputs.reader import split_stream
from diagnostics.reading import Reading
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
    for case in CASES[scan_from_bytes == 0 :: 2]:  # each by one of the gates
        text = case.read_bytes()
        whole = events_of(text, 2**20, Gate(scan_from_bytes=scan_from_bytes))
        for chunk_bytes in (999,):
            assert events_of(text, chunk_bytes, Gate(scan_from_bytes=scan_from_bytes)) == whole, case


def judged(text: bytes, chunk_bytes: int, gate: Gate) -> tuple[object, ...]:
    """What is said of a log, but for the number of NCCL's lines and the wording of quotes."""
    reading = Reading(gate)
    for batch in split_stream(io.BytesIO(text), "a.log", chunk_bytes):
        reading.feed(batch)
    reading.flush()
    said = reading.diagnosis()
    findings = [(one.rule, one.severity, one.summary, one.occurrences, one.ranks, one.hosts) for one in said.findings]
    return said.verdict, said.network, said.gdr, said.tcp_fallback, said.lines.read, findings


# Every day every other case: the others of them go through the same lines.
@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.long)])
def test_both_gates_blocks_of_any_size_and_ends_of_lines_lead_to_the_same_diagnosis(half: int) -> None:
    pytest.importorskip("hyperscan")
    assert len(CASES) > 400
    for case in CASES[half::2]:
        text = case.read_bytes().replace(b"\r\n", b"\n")
        each_line = judged(text, 2**20, Gate(scan_from_bytes=2**40, detail_left=10**9))
        assert judged(text, 2**17, Gate(scan_from_bytes=0)) == each_line, case
        assert judged(text.replace(b"\n", b"\r\n"), 3000, Gate(scan_from_bytes=0)) == each_line, case


MUTATIONS = {
    "whole": len(CASES),
    "cut": 60,
    "without marks": 60,
    "shuffled": 60,
    "beside a huge line": 20,
}  # cases of each


@pytest.mark.parametrize(
    "mutation",
    [pytest.param(one, marks=pytest.mark.long if one == "whole" else ()) for one in MUTATIONS],  # every day: above
)
def test_the_scanner_and_shortcuts_say_what_reading_each_line_says(mutation: str) -> None:
    dice = random.Random(mutation)
    for case in dice.sample(CASES, MUTATIONS[mutation]):
        lines = case.read_bytes().split(b"\n")
        place = dice.randrange(len(lines))
        if mutation == "cut":
            lines = lines[place:] if dice.random() < 0.5 else lines[:place]
        elif mutation == "without marks":
            lines = [line.split(b"NCCL INFO ")[-1].split(b"NCCL WARN ")[-1] for line in lines]
        elif mutation == "shuffled":
            dice.shuffle(lines)
        elif mutation == "beside a huge line":
            lines.insert(place, b"x" * 200_000 + lines[place] + b"y" * 70_000)
        text = b"\n".join(lines)
        each_line = judged(text, 2**20, Gate(scan_from_bytes=2**40, detail_left=10**9))
        assert judged(text, 2**17, Gate(scan_from_bytes=0)) == each_line, case
        assert judged(text, dice.randrange(300, 5000), Gate(scan_from_bytes=0, detail_left=10**9)) == each_line, case
        assert judged(text, 2**12, Gate(scan_from_bytes=2**40)) == each_line, case
