"""Lines that are passed over before a pattern looks at them: those that say nothing more, and no other."""

import pytest

from diagnostics.scanning.gate import Gate
from diagnostics.scanning.literals import KNOWN_CONNECTED
from diagnostics.scanning.unmarked import FOREIGN


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n", b" comm 0x1 nRanks 2\n"])
def test_a_channel_without_gpudirect_is_seen_late_at_the_end_of_a_block(end: bytes) -> None:
    for text in ("NET/IB/2", "NET/IB/2(3)", "NET/IB/2/Shared", "NET/Socket/0", "SHM/direct", "COLLNET/SHARP/0"):
        raw = b"n1:1:2 [0] NCCL INFO Channel 00 : 51[8a000] -> 52[1a000] [send] via " + text.encode() + end
        for scan_from_bytes in (0, 2**40):
            gate = Gate(scan_from_bytes=scan_from_bytes, detail_left=0)
            assert [number for number, _ in gate.candidates(raw)] == [0], (raw, scan_from_bytes)


def test_lines_that_differ_in_digits_only_are_passed_over_where_no_digit_decides() -> None:
    gate = Gate(scan_from_bytes=2**40, detail_left=0)
    step = b"n1:1:2 [0] NCCL INFO Channel %d/0 : 0[0] -> 1[1] via P2P/IPC"
    assert not list(gate.candidates(b"\n".join([b"  3 int9  sum", b"step 1 loss 0.5", step % 0])))
    told_by_digits = [literal for literal in FOREIGN if any(character.isdigit() for character in literal.decode())]
    other_digits = [literal.translate(bytes.maketrans(b"0123456789", b"9" * 10)) for literal in told_by_digits]
    assert not any(list(gate.candidates(line)) for line in other_digits)
    lines = [*told_by_digits, b"step 2 loss 0.25", step % 17]
    assert [raw for _, raw in gate.candidates(b"\n".join(lines))] == told_by_digits
    assert (gate.lines, gate.nccl_lines) == (3 + len(other_digits) + len(lines), 2)


def test_lines_of_nccl_are_as_many_with_and_without_a_scanner() -> None:
    named = [
        b"n1:1:2 [0] NCCL INFO Channel 00/16 : 0 1",
        b"[rank0]: [W1 ProcessGroupNCCL.cpp:4561] Warning: TORCH_NCCL_AVOID_RECORD_STREAMS is the default now",
        b"+ echo 'RUN_NCCL_BW_TEST = 1'",
        b"NCCL INFO pasted without its host",
        b"n1:1:2 [0] net.cc:7 NCCL WARN Call to connect failed",
    ]
    block = b"\n".join([b"step 1", *named, b"CCL alone", b""])
    for scan_from_bytes in (0, 2**40):
        for detail_left in (0, 30_000):
            gate = Gate(scan_from_bytes=scan_from_bytes, detail_left=detail_left)
            for _ in range(2):
                assert list(gate.candidates(block))
            assert (gate.lines, gate.nccl_lines) == (2 * (len(named) + 3), 2 * len(named))


def test_where_many_late_lines_have_the_mark_only_those_with_a_mark_are_counted() -> None:
    marked = [b"n1:1:2 [0] NCCL INFO Trees [0] %d" % number for number in range(200)]
    warning, version = b"n1:1:2 [0] net.cc:7 NCCL WARN Call to connect failed", b"NCCL version 2.27.5+cuda12.9"
    block = b"\n".join([*marked, warning, version, b"step 1"])
    for scan_from_bytes in (0, 2**40):
        for detail_left, sparse, nccl_lines in ((0, False, 201), (0, True, 202), (30_000, False, 202)):
            gate = Gate(scan_from_bytes=scan_from_bytes, detail_left=detail_left, sparse=sparse)
            assert list(gate.candidates(block))
            assert (gate.lines, gate.nccl_lines) == (203, nccl_lines)


def test_late_lines_that_say_connected_are_left_out_only_where_both_texts_are_known() -> None:
    head = b"n1:1:2 [0] NCCL "
    usual = [head + text for text in KNOWN_CONNECTED]
    others = (b"rings, use ring PXN 0 GDR 0", b"ringsn2:3:4 [0] NCCL INFO Using network Socket")
    lines = [*usual, *(head + b"INFO Connected all " + text for text in others), *usual]
    for known in ((), KNOWN_CONNECTED[:1], KNOWN_CONNECTED):
        gate = Gate(scan_from_bytes=0, detail_left=0, known=dict.fromkeys(known, 0))
        if gate.database() is None:
            pytest.skip("needs hyperscan")
        found = [raw for _, raw in gate.candidates(b"\n".join(lines))]
        assert [raw for raw in lines if raw not in usual] == [raw for raw in found if raw not in usual]
        assert {raw for raw in usual if raw in found} == {head + text for text in KNOWN_CONNECTED if text not in known}
        assert gate.nccl_lines == len(lines) + 1  # one line holds two messages
        counted = found.count(usual[0]) + gate.known.get(KNOWN_CONNECTED[0], 0)
        assert counted == (0 if known == KNOWN_CONNECTED else 2)


def test_without_a_scanner_they_are_left_out_too_and_lines_of_nccl_are_counted_all_the_same() -> None:
    usual = [b"n%d:1:2 [0] NCCL %b" % (number, text) for number in range(9) for text in KNOWN_CONNECTED]
    lines = [*usual, b"n1:1:2 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0"]
    for known, omitted in ((KNOWN_CONNECTED[:1], 0), (KNOWN_CONNECTED, 2)):
        gate = Gate(scan_from_bytes=2**40, detail_left=0, known=dict.fromkeys(known, 0))
        for _ in range(2):
            found = [raw for _, raw in gate.candidates(b"\n".join(lines))]
            assert [raw for raw in lines if not raw.endswith(known)] == found
        assert (gate.nccl_lines, len(gate._dull)) == (2 * len(lines), omitted)


def test_a_late_line_that_only_counts_is_passed_over_unless_another_message_is_glued_to_it() -> None:
    told = (
        b"16 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels, 2 p2p channels per peer",
        b"Broadcast: opCount 1f sendbuff 0x7f recvbuff 0x7f count 1024 datatype 7 op 0 root 0 comm 0x55 stream 0x66",
    )
    lines = [b"n1:1:2 [0] NCCL INFO " + text for text in told]
    glued = [line + b"n2:3:4 [0] misc/ibvwrap.cc:9 NCCL WARN Call to ibv_reg_mr failed" for line in lines]
    for scan_from_bytes in (0, 2**40):
        gate = Gate(scan_from_bytes=scan_from_bytes, detail_left=0)
        found = [raw for _ in range(2) for _, raw in gate.candidates(b"\n".join([*lines, *glued]))]
        assert [raw for raw in found if raw in glued] == 2 * glued
        assert not [raw for raw in found if raw in lines]


def test_without_a_scanner_each_shape_of_a_line_is_searched_once_and_told_by_what_it_holds() -> None:
    step, error = b"step %d loss 0.5 " + b"x" * 900, b"worker %d: RuntimeError: no memory"
    lines = [line % number for number in range(300) for line in (step, error)]
    for detail in (0, 30_000):
        gate = Gate(scan_from_bytes=2**40, detail_left=detail)
        for begin in range(0, len(lines), 100):
            block = lines[begin : begin + 100]
            found = [raw for _, raw in gate.candidates(b"\n".join(block))]
            assert found == [raw for raw in block if raw.startswith(b"worker")]
        assert (gate.lines, len(gate._dull), len(gate._telling)) == (600, 1, 1)


def test_a_line_that_says_nothing_hides_none_that_differs_in_more_than_digits() -> None:
    """Of lines with the same text but for digits one is looked at; "-> 2" of ranks is no error of a function."""
    mark = b"n1:1:2 [0] NCCL INFO "
    gate = Gate(scan_from_bytes=2**40, detail_left=0)
    same = [mark + b"Channel 0%d/0 : 0[0] -> %d[1] via P2P/CUMEM" % (number, number) for number in range(1, 9)]
    told = [
        mark + b"Channel 01/0 : 0[0] -> 1[1] via SHM/direct/direct",
        mark + b"transport/net_ib.cc:1234 -> 2",
        b"socket.cc:12 -> 3",
        b"0[0] -> 2[1]",
    ]
    for _ in range(2):
        lines = [*same, *told, *same]
        found = [raw for _, raw in gate.candidates(b"\n".join(lines))]
        assert [raw for raw in found if raw in same] == []
        assert set(told[:3]) <= set(found)
