"""A line whose halves are known gives the events that it gives when it is read in full."""

from pathlib import Path

import pytest

from diagnostics.events import Event
from diagnostics.inputs.reader import Batch
from diagnostics.scanning.plain_lines import PlainLines
from diagnostics.scanning.scanner import Scanner
from diagnostics.scanning.starts import Start

CASES = sorted((Path(__file__).parents[1] / "cases").glob("*/*/*.log"))
HEADS = (
    b"n1:1:2 [0] ",
    b"n1.site:1:2 [0] ",
    b"[1,3]<stdout>:n1:1:2 [0] ",
    b"3: n1:1:2 [0] ",
    b"FOO=1 NCCL_DEBUG=INFO n1:1:2 [0] ",
    b'{"log":"n1:1:2 [0] ',
    b"\x1b[31mn1:1:2 [0] ",
    b"NCCL n1:1:2 [0] ",
    b"* n1:1:2 [0] ",
    b"xn1:1:2 [0] NCCL INFO Using network IB",
    b"n\xc3\xa9:1:2 [0] ",
    b"n1:1234567890123456789012:2 [0] ",
    b"n1:1:2 [-1] ",
    b"",
)
BODIES = (
    b"Using network IB",
    b"Using network IB\r",
    b"Using network *IB*",
    b"Using network IB \x1b[0m",
    b"Using network [IB](https://example.org)",
    b"Using network IB [repeated 3x across cluster]",
    b"Using network IB [repeated 3x",
    b'Using network IB"}',
    b"NCCL_IB_DISABLE set by environment to 1.",
    b"NCCL_IB_DISABLE=1 NCCL_DEBUG=INFO",
    b"Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA",
    b"Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0n2:3:4 [1] NCCL INFO Using network Socket",
    b"comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE",
    b"transport/net.cc:1 -> 2",
    b"",
)


class ReadsNothing(PlainLines):
    """No half is ever known."""

    __slots__ = ()

    def read(self, raw: bytes) -> None:
        """Every line is read in full."""


def events_of(text: bytes, plain: PlainLines) -> list[Event]:
    found: list[Event] = []
    scanner = Scanner(found.append, _plain=plain)
    scanner.feed(Batch(file="a.log", block=text, first=True))
    scanner.finish()
    return found


@pytest.mark.parametrize("head", HEADS)
def test_halves_that_were_read_before_mean_what_the_whole_line_means(head: bytes) -> None:
    warning = b"n1:1:2 [0] misc/socket.cc:1 NCCL WARN Call to connect to 10.0.0.1<1> failed : Connection"
    lines = [head + b"NCCL INFO " + body for body in BODIES]
    text = b"\n".join([*lines, *lines, warning, *lines, *(b"n2:3:4 [1] NCCL INFO " + body for body in BODIES)])
    assert events_of(text, PlainLines()) == events_of(text, ReadsNothing())


def test_every_case_gives_the_events_that_it_gives_in_full() -> None:
    assert CASES
    for case in CASES:
        text = case.read_bytes()
        assert events_of(text, PlainLines()) == events_of(text, ReadsNothing()), case


def test_starts_read_by_one_expression_are_those_that_the_table_of_patterns_reads() -> None:
    starts = 0

    def sink(start: Start) -> None:
        nonlocal starts
        starts += 1
        found.append(start.event())

    for case in CASES:
        text = case.read_bytes()
        found: list[Event] = []
        scanner = Scanner(found.append, starts=sink)
        scanner.feed(Batch(file="a.log", block=text, first=True))
        scanner.finish()
        assert found == events_of(text, PlainLines()), case
    assert starts > 100
