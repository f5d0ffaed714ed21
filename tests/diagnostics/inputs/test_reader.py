import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnostics import engine
from diagnostics.builder import FactBuilder
from diagnostics.engine import diagnose_paths
from diagnostics.errors import UnreadableInputError
from diagnostics.inputs import reader
from diagnostics.inputs.files import find_inputs
from diagnostics.inputs.reader import MAX_LINE_BYTES, Batch, read_batches, split_stream
from diagnostics.reading import Reading
from diagnostics.scanning.gate import Gate
from diagnostics.scanning.scanner import Scanner
from tests.diagnostics.test_program_failures import START

CASES = Path(__file__).parents[1] / "cases"
LOG = (CASES / "ib-retry-exceeded" / "with_victims" / "input.log").read_bytes()


def found(paths: list[Path | str]) -> list[str]:
    return [one.name for one in find_inputs(paths).files]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_compressed_logs_read_like_plain_ones(tmp_path: Path, suffix: str, pack) -> None:
    (tmp_path / "a.log").write_bytes(LOG)
    (tmp_path / f"b{suffix}").write_bytes(pack(LOG))
    plain, packed = diagnose_paths([tmp_path / "a.log"]), diagnose_paths([tmp_path / f"b{suffix}"])
    assert [finding.rule for finding in packed.findings] == [finding.rule for finding in plain.findings]
    assert packed.lines == plain.lines


def test_zstd(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "a.zst").write_bytes(zstandard.ZstdCompressor().compress(LOG))
    assert diagnose_paths([tmp_path / "a.zst"]).verdict == "critical"


def test_a_cut_archive_gives_what_can_be_read_and_says_so(tmp_path: Path) -> None:
    packed = gzip.compress(LOG * 400, compresslevel=0)
    (tmp_path / "a.gz").write_bytes(packed[: len(packed) // 2])
    diagnosis = diagnose_paths([tmp_path / "a.gz"])
    assert diagnosis.verdict == "critical"
    assert diagnosis.notes


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOG)))
    assert diagnose_paths(["-"]).findings[0].rule == "ib-retry-exceeded"


@pytest.mark.parametrize(
    "pack", [gzip.compress, lzma.compress, bz2.compress, lambda log: log.decode().encode("utf-16")]
)
def test_standard_input_is_read_as_a_file_would_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pack) -> None:
    (tmp_path / "plain.log").write_bytes(LOG)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(LOG))))
    assert diagnose_paths(["-"]).lines == diagnose_paths([tmp_path / "plain.log"]).lines


def test_a_compressed_pipe_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MIN_BOMB_BYTES", len(LOG))  # looks at the bytes taken, which a pipe cannot tell
    pipe = tmp_path / "log.pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(LOG * 20),), daemon=True)
    writer.start()
    blocks = list(read_batches(str(pipe)))
    writer.join(60)
    assert b"\n".join(batch.block for batch in blocks).count(b"\n") + 1 == LOG.count(b"\n") * 20
    assert not any(batch.note for batch in blocks)


def test_standard_input_that_is_closed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UnreadableInputError, match="standard input is closed"):
        diagnose_paths(["-"])


def test_a_file_named_in_two_ways_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(LOG)
    (tmp_path / "latest.log").symlink_to("run.log")
    (tmp_path / "copy.log").write_bytes(LOG)
    files = found([tmp_path / "run.log", f"{tmp_path}/../{tmp_path.name}/run.log", tmp_path])
    assert [Path(file).name for file in files] == ["run.log", "copy.log"]


@pytest.mark.parametrize("name", ["b.log", "nccl_trace_rank_1"])
def test_one_unreadable_file_among_others_is_left_out_and_noted(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.log").write_bytes(LOG)
    (tmp_path / name).symlink_to("/proc/self/mem")  # opens, and cannot be read at its start, by root either
    diagnosis = diagnose_paths([tmp_path / "a.log", tmp_path / name])
    assert diagnosis.verdict == "critical"
    assert [note for note in diagnosis.notes if name in note and "Input/output error" in note]
    with pytest.raises(UnreadableInputError, match=name):
        diagnose_paths([tmp_path / name])


@pytest.mark.parametrize(
    ("line", "unreadable"),
    [
        (bytes(range(256)), 1),
        ("h:1:2 [0] NCCL INFO x".encode("utf-16-le"), 1),
        (b"\x00" * 20, 1),
        (b"h:1:2 [0] NCCL INFO Using network IB\x00", 0),
        ("\u901a\u4fe1 \u5931\u8d25".encode(), 0),
        (b"caf\xe9 \xff\xff", 0),
    ],
)
def test_binary_lines_are_counted_as_not_readable(tmp_path: Path, line: bytes, unreadable: int) -> None:
    (tmp_path / "a.log").write_bytes(b"plain\n" + line.replace(b"\n", b"") + b"\nplain\n")
    assert diagnose_paths([tmp_path]).lines.unreadable == unreadable


def test_folders_and_globs(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.log", "a.log", "sub/c.log", "script.py", ".hidden"):
        (tmp_path / name).write_bytes(LOG)
    names = [Path(file).name for file in found([tmp_path])]
    assert names == ["a.log", "b.log", "c.log"]
    assert [Path(file).name for file in found([f"{tmp_path}/*.log", tmp_path / "a.log"])] == ["a.log", "b.log"]


@pytest.mark.parametrize("path", ["does-not-exist", "no/such/*.log"])
def test_missing_inputs_are_an_error(path: str) -> None:
    with pytest.raises(UnreadableInputError, match="does not exist"):
        diagnose_paths([path])


def test_blocks_hold_every_line_once_whatever_the_chunk_size() -> None:
    lines = [b"line %d" % number for number in range(200)]
    for chunk_bytes in (1, 7, 64, 10_000):
        batches = list(split_stream(io.BytesIO(b"\n".join(lines)), "x", chunk_bytes))
        assert [line for batch in batches for line in batch.block.split(b"\n")] == lines
        assert [batch.first for batch in batches] == [True] + [False] * (len(batches) - 1)


def test_a_huge_line_takes_bounded_memory() -> None:
    stream = io.BytesIO(b"x" * 10_000_000 + b"\nNCCL version 2.20.5+cuda12.4\n")
    batches = list(split_stream(stream, "x", 2**20))
    assert max(len(batch.block) for batch in batches) <= 2**20 + MAX_LINE_BYTES + 1


def test_line_numbers_are_right_across_blocks(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"noise\n" * 100_000 + LOG)
    diagnosis = diagnose_paths([tmp_path / "a.log"])
    for evidence in diagnosis.findings[0].evidence:
        assert (tmp_path / "a.log").read_text().splitlines()[evidence.line - 1] == evidence.text
    assert diagnosis.lines.read == 100_000 + LOG.count(b"\n")


def test_both_gates_pass_what_the_patterns_need() -> None:
    pytest.importorskip("hyperscan")
    for log in sorted(CASES.glob("*/*/input.log")):
        seen = []
        for gate in (Gate(scan_from_bytes=0), Gate(scan_from_bytes=2**40)):
            builder = FactBuilder()
            scanner = Scanner(builder.add, gate=gate)
            for batch in read_batches(str(log)):
                scanner.feed(batch)
            scanner.finish()
            kinds = {kind: total for kind, total in builder.totals.items() if kind not in UNUSED}
            seen.append((kinds, gate.lines))
        assert seen[0] == seen[1], log


def test_a_long_log_gives_the_same_with_and_without_the_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hyperscan")
    logs = [path.read_bytes() for path in sorted(CASES.glob("*/*/input.log"))]
    block = b"\n".join(logs)
    seen = []
    for scan_from_bytes in (0, 2**40):
        reading = Reading(Gate(scan_from_bytes=scan_from_bytes, detail_left=len(logs)))
        for _ in range(3):  # what is left of the detail is over with the first
            reading.feed(Batch(file="a.log", block=block))
        reading.flush()
        diagnosis = reading.diagnosis()
        rules = {(finding.rule, finding.severity) for finding in diagnosis.findings}
        seen.append((diagnosis.network, diagnosis.gdr, diagnosis.tcp_fallback, rules, diagnosis.lines.read))
    assert seen[0] == seen[1]


# kinds that no rule needs beyond the lines that both gates pass
UNUSED = {
    "cuda-driver",
    "dmabuf-available",
    "nvls-support",
    "p2p-support",
    "pci-link",
    "search-result",  # the rule needs those of pattern 4, which both pass
    "socket-connection",
    "trace",  # of net_ib and net_socket, which are needed, both pass all
}


def test_a_decompression_bomb_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MIN_BOMB_BYTES", 2**20)
    monkeypatch.setattr(reader, "MAX_EXPANSION", 50)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(64 * 2**20)))
    diagnosis = diagnose_paths([tmp_path / "bomb.gz"])
    assert "bomb" in diagnosis.notes[0]


@pytest.mark.parametrize("scan_from_bytes", [0, 2**40], ids=["scan", "by_line"])
def test_late_in_a_big_log_only_what_changes_a_judgement_is_read(scan_from_bytes: int) -> None:
    if scan_from_bytes == 0:
        pytest.importorskip("hyperscan")
    told = [
        b"n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA",
        b"n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        b"n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x2 - Init COMPLETE",
    ]
    telling = [
        b"n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        b"n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0",
        b"n1:1:2 [0] transport/net_ib.cc:9 NCCL WARN NET/IB : Got completion with error 12, opcode 0",
    ]
    gate = Gate(scan_from_bytes=scan_from_bytes, detail_left=0, skips_init=True)
    candidates = list(gate.candidates(b"\n".join([*told, *telling])))
    assert [raw for _, raw in candidates] == telling
    assert gate.lines == len(told) + len(telling)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_marks_of_other_encodings(tmp_path: Path, encoding: str) -> None:
    text = "gpu-a:1:2 [0] NCCL INFO Using network Socket\r\n" * 3000
    packed = text.encode(encoding)
    (tmp_path / "a.log").write_bytes(b"\xfe\xff" + packed if encoding == "utf-16-be" else packed)
    diagnosis = diagnose_paths([tmp_path / "a.log"])
    assert (diagnosis.network, diagnosis.lines.nccl, diagnosis.lines.read) == ("socket", 3000, 3000)


def test_a_trace_of_a_profiler_is_left_to_other_tools(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [\n{"ph": "X"}]}')
    (tmp_path / "a.log").write_bytes(LOG)
    alone, beside = diagnose_paths([tmp_path / "a.log"]), diagnose_paths([tmp_path / "a.log", tmp_path / "trace.json"])
    rules = [{finding.rule for finding in diagnosis.findings} for diagnosis in (alone, beside)]
    assert rules[1] - rules[0] <= {"log-truncated"}
    assert "ui.perfetto.dev" in beside.notes[0]


@pytest.mark.parametrize(
    "text", ['{"schemaVersion": 1, "deviceProperties": []}', '{\n"a": 1,\n"traceEvents": [\n]\n}\n']
)
def test_a_trace_alone_is_said_to_be_one_and_what_opens_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "rank0.json").write_text(text)
    diagnosis = diagnose_paths([tmp_path / "rank0.json"])
    assert diagnosis.verdict == "unknown"
    assert "is not a log of NCCL" in diagnosis.explanation
    assert "ui.perfetto.dev" in diagnosis.explanation


def test_below_a_folder_only_json_of_an_inspector_is_read(tmp_path: Path) -> None:
    line = '{"header":{"id":"0x7f","rank":0,"n_ranks":8},"metadata":{},"coll_perf":{"coll":"AllReduce","coll_sn":1}}'
    (tmp_path / "inspector.json").write_text(line + "\n")
    (tmp_path / "result.json").write_text('{"schema": "raybench.result/1"}')
    assert [Path(name).name for name in found([tmp_path])] == ["inspector.json"]


@pytest.mark.parametrize(
    "pack", [gzip.compress, lambda data: bz2.compress(data, 1), lambda data: lzma.compress(data, preset=0)]
)
def test_an_archive_that_is_damaged_in_the_middle_is_read_up_to_there(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    source = b"".join(b"h:1:2 [0] NCCL INFO line %d %d\n" % (number, number * 7919 % 65537) for number in range(30_000))
    packed = bytearray(pack(source))
    middle = len(packed) // 2
    packed[middle : middle + 400] = b"\xff" * 400
    path = tmp_path / "nccl.log.packed"
    path.write_bytes(packed)
    batches = list(read_batches(str(path)))
    assert source.startswith(b"".join(batch.block for batch in batches[:1]))
    assert batches[0].block.startswith(b"h:1:2 [0] NCCL INFO line 0 0")
    assert "reading stopped early" in str(batches[-1].note)


@pytest.mark.parametrize(("kept", "verdict"), [(1.0, "ok"), (0.6, "unknown")])
def test_a_file_that_is_cut_while_it_is_read_is_not_shown_to_be_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: float, verdict: str
) -> None:
    log = tmp_path / "job.log"
    text = "\n".join([*START, *(f"step {number} | loss 2.31 | 410.2 ms" for number in range(40))]) + "\n"
    log.write_text(text)

    def cut() -> int:
        with log.open("r+b") as file:
            file.truncate(int(len(text) * kept))
        return 1

    monkeypatch.setattr(engine, "processes_to_use", cut)
    diagnosis = engine.diagnose_paths([log])
    assert diagnosis.verdict == verdict
    assert ("cut while it was read" in " ".join(diagnosis.notes)) is (kept < 1)
