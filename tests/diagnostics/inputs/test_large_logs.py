"""Large logs are read in pieces, by several processes: the answers are those of one process that reads every line."""

import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from diagnostics import engine, reading
from diagnostics.inputs import launches, speakers
from diagnostics.inputs.files import Input, find_inputs
from diagnostics.inputs.forked import map_ahead
from diagnostics.inputs.jobs import Job, sort_by_job
from diagnostics.inputs.reader import read_batches, read_range
from diagnostics.reading import Reading
from diagnostics.scanning import sifting, tally
from diagnostics.scanning.gate import Gate
from diagnostics.scanning.sifting import Piece

CASES = Path(__file__).parents[1] / "cases"


def lines_of(job: int) -> Iterator[str]:
    """A job of two ranks: what it says at the start, much that repeats, training steps, a warning."""
    for rank in (0, 1):
        mark = f"node{rank}:{100 * job + rank}:{100 * job + rank + 50} [{rank}] NCCL INFO"
        yield f"{mark} Bootstrap : Using eth0:10.0.0.{rank + 1}<0>"
        yield f"{mark} NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.{rank + 1}<0>"
        yield f"{mark} Using network IB"
        where = (
            f"comm 0x{job}{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}000 commId 0xabc{job}"
        )
        yield f"{mark} {where} - Init START"
        yield f"{mark} {where} - Init COMPLETE"
    for step in range(400):
        mark = f"node{step % 2}:{100 * job + step % 2}:{100 * job + step % 2 + 50} [{step % 2}] NCCL INFO"
        yield f"{mark} Channel {step % 16:02}/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA"
        yield f"{mark} Channel {step:02}/16 : 0 1"
        yield f"step {step} loss {1 / (step + 1):.4f}"
        yield f"[{step}.5] [node0:{step}:0] parser.c:1885 UCX  WARN  unused env variable: UCX_HOME"
        if step % 150 == 149:
            warning = "NCCL WARN NET/IB : Got async event : GID table change"
            yield f"node0:{100 * job}:{100 * job + 50} [0] net.cc:{step} {warning}"
    yield f"node1:{100 * job + 1}:{100 * job + 51} [1] NCCL INFO comm 0x{job}1 rank 1 nranks 2 - Destroy COMPLETE"


def write_log(path: Path, repetitions: int = 6, jobs: int = 3) -> Path:
    """A log of several jobs one after another, each of which says everything several times."""
    lines = [line for job in range(1, jobs + 1) for _ in range(repetitions) for line in lines_of(job)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("scan_from_bytes", [0, 2**40], ids=["scan", "by_line"])
def test_several_processes_give_the_answer_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan_from_bytes: int
) -> None:
    log = write_log(tmp_path / "big.log")
    monkeypatch.setattr(engine, "MIN_BYTES", 2**16)
    monkeypatch.setattr(sifting, "PIECE_BYTES", 2**15)
    found = []
    for ahead in (lambda _work, items, *_: [None] * len(items), map_ahead):
        monkeypatch.setattr(engine, "map_ahead", ahead)
        job_list = sort_by_job([Input(name=str(log))])
        assert len(job_list) == 3
        readings = [Reading(Gate(scan_from_bytes=scan_from_bytes, detail_left=300)) for _ in job_list]
        assert engine.read_jobs(job_list, readings, 3) == [0, 0, 0]
        found.append(engine.diagnose_jobs(job_list, readings).to_json())
    assert found[0] == found[1]
    assert found[0]["lines"]["read"] == log.read_bytes().count(b"\n")
    assert "ib-async-event" in {finding["rule"] for finding in found[0]["findings"]}


def test_every_case_says_the_same_in_pieces_of_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces that end anywhere, beside other processes, whichever of them begins to leave the detail out."""
    monkeypatch.setattr(engine, "MIN_BYTES", 2**10)
    monkeypatch.setattr(sifting, "PIECE_BYTES", 2**12)
    cases = sorted(CASES.glob("*/*/*.log"), key=lambda path: path.stat().st_size)[-12:]
    assert len(cases) == 12
    for case in cases:
        found = []
        for processes in (1, 3):
            jobs = sort_by_job([Input(name=str(case))])
            readings = [Reading(Gate(scan_from_bytes=0, detail_left=100)) for _ in jobs]
            assert not any(engine.read_jobs(jobs, readings, processes))
            found.append(engine.diagnose_jobs(jobs, readings).to_json())
        assert found[0] == found[1], case


@pytest.mark.parametrize("seed", [0, 3, 4, *(pytest.param(one, marks=pytest.mark.long) for one in (1, 2, 5))])
def test_mixes_of_cases_say_the_same_in_one_pass_and_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever is sifted where: pieces of any size, of one launch or of several, with or without the detail."""
    dice = random.Random(seed)
    cases = sorted(CASES.glob("*/*/*.log"))
    log = tmp_path / "mix.log"
    for _ in range(3):
        blocks = [case.read_bytes().rstrip(b"\n") for case in dice.sample(cases, dice.choice([1, 2, 4]))]
        repeated = write_log(tmp_path / "part.log", repetitions=2, jobs=dice.choice([0, 1])).read_bytes()
        log.write_bytes(b"\n".join([*blocks, repeated]) if dice.random() < 0.5 else repeated + b"\n".join(blocks))
        for name in ("PIECE_BYTES", "FIRST_PIECE_BYTES", "FIRST_BYTES", "END_BYTES", "SPARSE_LINES"):
            monkeypatch.setattr(sifting, name, dice.choice([2**5, 2**9, 2**12, 2**14]))
        monkeypatch.setattr(engine, "MIN_BYTES", 1)
        scan, detail = dice.choice([0, 2**40]), dice.choice([0, 20, 200, 30_000])
        monkeypatch.setattr(reading, "Gate", partial(Gate, scan_from_bytes=scan, detail_left=detail))
        monkeypatch.setattr(sifting, "Gate", partial(Gate, scan_from_bytes=scan))
        found = []
        for ahead, processes in ((lambda _work, items, *_: [None] * len(items), 2), (map_ahead, 3), (map_ahead, 1)):
            monkeypatch.setattr(engine, "map_ahead", ahead)
            monkeypatch.setattr(engine, "processes_to_use", lambda processes=processes: processes)
            found.append(engine.diagnose_paths([log]).to_json())
        assert found[0] == found[1]
        assert found[0] == found[2]


@pytest.mark.parametrize("piece_bytes", [2**12, 2**14 + 7, 2**16])
def test_one_log_says_the_same_by_any_number_of_processes_with_and_without_a_scanner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    log = write_log(tmp_path / "big.log", repetitions=3, jobs=1)
    monkeypatch.setattr(engine, "MIN_BYTES", 1)
    monkeypatch.setattr(sifting, "PIECE_BYTES", piece_bytes)
    said = []
    for scan_from_bytes in (0, 2**40):
        monkeypatch.setattr(reading, "Gate", partial(Gate, scan_from_bytes=scan_from_bytes, detail_left=300))
        monkeypatch.setattr(sifting, "Gate", partial(Gate, scan_from_bytes=scan_from_bytes))
        for processes in (1, 2, 3):
            monkeypatch.setattr(engine, "processes_to_use", lambda processes=processes: processes)
            said.append(engine.diagnose_paths([log]).to_json())
    assert all(one == said[0] for one in said[1:])


@pytest.mark.parametrize("harm", ["none", "a process that ends early"])
def test_jobs_that_share_the_work_are_read_each_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    monkeypatch.setattr(engine, "MIN_BYTES", 2**10)
    monkeypatch.setattr(sifting, "PIECE_BYTES", 2**14)
    dealt_out: list[int] = []

    def ahead(work: Callable[[Job], object], jobs: Sequence[Job], processes: int) -> list[object]:
        dealt_out.extend([len(jobs)] if isinstance(jobs[0], Job) else [])  # else pieces, until a second job is seen
        return [None] * len(jobs) if harm != "none" else list(map_ahead(work, jobs, processes))

    log = write_log(tmp_path / "big.log", jobs=4)
    said = []
    for processes in (1, 2, 4):
        monkeypatch.setattr(engine, "processes_to_use", lambda processes=processes: processes)
        monkeypatch.setattr(engine, "map_ahead", ahead)
        said.append(engine.diagnose_paths([log]).to_json())
    assert dealt_out == [4, 4]
    assert len(said[0]["jobs"]) == 4
    assert said[0] == said[1] == said[2]


def test_one_large_job_beside_a_small_one_is_shared_by_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MIN_BYTES", 2**10)
    large, small = write_log(tmp_path / "large.log", 20, 1), write_log(tmp_path / "small.log", 1, 2)
    small.write_text("\n".join(lines_of(2)))
    jobs = sort_by_job([Input(name=str(large)), Input(name=str(small))])
    assert len(jobs) == 2
    assert not engine._judged_apart(jobs, 2)


def test_one_pass_is_enough_for_one_launch_and_left_for_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveyed: list[int] = []

    def sorted_after_survey(files: tuple[Input, ...], processes: int) -> tuple[Job, ...]:
        surveyed.append(len(files))
        return sort_by_job(files, processes)

    monkeypatch.setattr(engine, "MIN_BYTES", 2**10)
    monkeypatch.setattr(sifting, "PIECE_BYTES", 2**14)
    monkeypatch.setattr(engine, "sort_by_job", sorted_after_survey)
    for jobs, surveys, beginning in ((1, 0, 2**25), (3, 1, 2**25), (3, 2, 0)):
        monkeypatch.setattr(engine, "BEGINNING_BYTES", beginning)
        log = write_log(tmp_path / "big.log", jobs=jobs)
        assert engine.diagnose_paths([log]).to_json()["lines"]["read"] == log.read_bytes().count(b"\n")
        assert len(surveyed) == surveys


def test_a_file_that_begins_with_several_launches_is_not_read_as_one_job_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Piece] = []
    monkeypatch.setattr(engine, "MIN_BYTES", 2**10)
    monkeypatch.setattr(sifting, "PIECE_BYTES", 2**12)
    monkeypatch.setattr(Reading, "read_piece", lambda _reading, piece, _sifted: read.append(piece))
    for jobs in (3, 1):
        log = write_log(tmp_path / "big.log", jobs=jobs)
        engine._diagnose_in_one_pass(find_inputs([log]), 1)
        assert bool(read) == (jobs == 1)


def healthy(job: int) -> Iterator[str]:
    """A job of two ranks of one machine in which nothing is wrong."""
    yield f"node0:{100 * job}:{200 * job} [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>"
    for rank in (0, 1):
        yield f"node0:{100 * job + rank}:{200 * job + rank} [{rank}] NCCL INFO Using network IB"
    yield from starts_of(job, 1)


def starts_of(job: int, communicators: int) -> Iterator[str]:
    """A job of two ranks that does nothing but start communicators."""
    for number in range(communicators):
        for what in ("START", "COMPLETE"):
            for rank in (0, 1):
                where = f"comm 0x{number}{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}000"
                mark = f"node0:{100 * job + rank}:{200 * job + rank} [{rank}] NCCL INFO"
                yield f"{mark} {where} commId 0xab{job}c{number} - Init {what}"


@pytest.mark.parametrize("in_one_pass", [True, False])
def test_jobs_are_told_apart_behind_however_many_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_one_pass: bool
) -> None:
    log = tmp_path / "many.log"
    log.write_text("\n".join([*starts_of(1, 12_600), *starts_of(2, 1)]) + "\n")
    if in_one_pass:
        monkeypatch.setattr(engine, "BEGINNING_BYTES", 0)
        monkeypatch.setattr(engine, "MIN_BYTES", 2**20)
        monkeypatch.setattr(engine, "processes_to_use", lambda: 2)
        assert len(engine.diagnose_paths([log]).jobs) == 2
    else:
        assert [job.parts[0].first_line for job in sort_by_job([Input(name=str(log))])] == [1, 50_401]


def test_more_launches_than_are_told_apart_are_not_shown_to_be_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "MAX_LAUNCHES", 3)
    for jobs, verdict in ((3, "ok"), (5, "unknown")):
        log = tmp_path / f"{jobs}.log"
        log.write_text("\n".join(line for job in range(1, jobs + 1) for line in healthy(job)) + "\n")
        said = engine.diagnose_paths([log])
        assert (len(said.jobs), said.verdict) == (3, verdict), said.explanation
    assert [note for note in said.notes if "not told apart" in note]
    assert "those from line 15 on" in said.explanation


@pytest.mark.parametrize("connects", [True, False])
def test_a_log_that_is_cut_in_a_late_start_shows_no_hang(tmp_path: Path, *, connects: bool) -> None:
    """Where lines that show how far ranks came are only counted, that there are none proves nothing."""
    marks = [f"node{rank}:{7 + rank}:{17 + rank} [{rank}] NCCL INFO" for rank in (0, 1)]
    starts = [
        f"{mark} comm 0xb{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}000 commId 0xlate"
        for rank, mark in enumerate(marks)
    ]
    lines = [f"{start.replace('0xlate', '0xab')} - Init {what}" for what in ("START", "COMPLETE") for start in starts]
    lines += [f"{mark} {text}" for mark in marks for text in ("Using network IB", "Connected all rings")]
    lines += [f"{start.replace('0xlate', '0xabc')} - Init START" for start in starts]
    lines += [f"{mark} {text}" for mark in marks for text in (["Connected all rings"] if connects else [])]
    (tmp_path / "cut.log").write_text("\n".join(lines) + "\n")
    rules = []
    for detail in (30_000, 2):
        reading = Reading(Gate(scan_from_bytes=0, detail_left=detail))
        for batch in read_batches(str(tmp_path / "cut.log"), chunk_bytes=150):
            reading.feed(batch)
        reading.flush()
        rules.append("init-hang" in {finding.rule for finding in reading.diagnosis().findings})
    assert rules == [not connects, False]


def test_a_trace_among_large_logs_is_left_out_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MIN_BYTES", 2**10)
    monkeypatch.setattr(sifting, "PIECE_BYTES", 2**12)
    log = write_log(tmp_path / "big.log", repetitions=1, jobs=1)
    (tmp_path / "empty.log").write_bytes(b"")
    trace = b'{"schemaVersion": 1, "deviceProperties": [],' + b'\n "name": "NCCL WARN Call to connect failed",' * 300
    (tmp_path / "trace.log").write_bytes(trace)
    for processes in (1, 2):
        monkeypatch.setattr(engine, "processes_to_use", lambda processes=processes: processes)
        diagnosis = engine.diagnose_paths([tmp_path])
        assert [note for note in diagnosis.notes if "trace.log" in note]
        assert diagnosis.lines.read == log.read_bytes().count(b"\n")
        assert diagnosis.to_json()["counters"]["files"] == 3


def test_jobs_of_a_large_file_are_cut_where_those_of_a_small_one_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Input(name=str(write_log(tmp_path / "big.log", repetitions=3)))

    def cuts(processes: int) -> list[tuple[int, int | None, int]]:
        return [(part.start, part.end, part.first_line) for job in sort_by_job([log], processes) for part in job.parts]

    every_line = cuts(1)
    monkeypatch.setattr(launches, "SAMPLED_FROM_BYTES", 0)
    monkeypatch.setattr(launches, "MIN_SHARED_BYTES", 0)
    monkeypatch.setattr(speakers, "SAMPLED_BYTES", 1000)
    assert len(every_line) == 3
    assert cuts(1) == every_line
    assert cuts(3) == every_line


def test_a_part_of_a_file_is_read_from_its_place_on(tmp_path: Path) -> None:
    text = b"first\n" + b"x" * 3_000_000 + b"\nthird\nfourth"
    (tmp_path / "a.log").write_bytes(text)
    one = Input(name=str(tmp_path / "a.log"))
    places = {batch.place: batch.block[:5] for batch in read_batches(one, chunk_bytes=2**16)}
    assert all(text[place : place + 5].startswith(head) for place, head in places.items())
    start = text.index(b"third")
    assert [batch.block for batch in read_range(one, start, len(text))] == [b"third", b"fourth"]


def test_a_pipe_whose_writer_comes_and_goes_quickly_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "log.pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a line\n",), daemon=True)
    writer.start()
    blocks = [batch.block for batch in read_batches(str(pipe))]
    writer.join(60)
    assert blocks == [b"a line"]


@pytest.mark.parametrize("scan_from_bytes", [0, 2**40], ids=["scan", "by_line"])
def test_processes_tell_each_other_how_many_starts_they_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan_from_bytes: int
) -> None:
    """Behind as many starts as are looked at none is passed on, and no answer depends on who was faster."""
    log = tmp_path / "many.log"
    late = "node{0}:{1}:{2} [{0}] NCCL INFO comm 0x1{0} rank {0} nRanks 2 nNodes 9 localRanks 1 localRank 0 MNNVL 0"
    nodes = [late.format(rank, 100 + rank, 150 + rank) for rank in (0, 1)]  # which are not looked at then either
    log.write_text("\n".join([*lines_of(1), *starts_of(1, 300), *nodes, *lines_of(1)]) + "\n")
    monkeypatch.setattr(tally, "MAX_INIT_LINES", 40)
    for module in (tally, sifting):
        monkeypatch.setattr(module, "MAX_KNOWN_INIT_LINES", 100)
    monkeypatch.setattr(engine, "MIN_BYTES", 1)
    for name in ("PIECE_BYTES", "FIRST_PIECE_BYTES"):
        monkeypatch.setattr(sifting, name, 2**11)
    monkeypatch.setattr(reading, "Gate", partial(Gate, scan_from_bytes=scan_from_bytes, detail_left=0))
    monkeypatch.setattr(sifting, "Gate", partial(Gate, scan_from_bytes=scan_from_bytes))
    said = []
    for processes in (1, 2, 3):
        monkeypatch.setattr(engine, "processes_to_use", lambda processes=processes: processes)
        said.append(engine.diagnose_paths([log]).to_json())
    with monkeypatch.context() as slow:  # each is the first
        slow.setattr(sifting._StartCounts, "before", lambda *_: 0)
        said.append(engine.diagnose_paths([log]).to_json())
    assert said[0] == said[1] == said[2] == said[3]
    assert said[0]["nodes"] == 2
    pieces = sifting.pieces_of(sort_by_job([Input(name=str(log))]))
    one, other = (sifting.Sieve(1, pieces, 2) for _ in range(2))
    other._counts = one._counts
    passed = [(one, other)[number % 2].sift(piece) for number, piece in enumerate(pieces)]
    starts = [raw for found in passed if found for _, raw in found.candidates if b"- Init " in raw]
    assert 101 <= len(starts) <= 102, "that of the last one is what shows that there are more"


@pytest.mark.parametrize("scan_from_bytes", [0, 2**40])
def test_a_process_passes_on_what_tells_and_once_at_most_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan_from_bytes: int
) -> None:
    """Lines that hold what is looked for and say nothing come by the thousand; one behind "Last error:" says more."""
    dull = [" 3: num_gpus=8 num_sockets = 2 num_nodes=2", "[1.5] [n:7:0] parser.c:9 UCX  WARN  unused env variable: A"]
    failed = "RuntimeError: CUDA error: an illegal memory access was encountered"
    quoted = ["torch.distributed.DistBackendError: ncclInternalError: Internal check failed.", "Last error:", dull[0]]
    log = tmp_path / "dull.log"
    log.write_text("\n".join([*(200 * dull), failed, *(200 * dull), failed, *quoted, *(200 * dull)]) + "\n")
    monkeypatch.setattr(sifting, "PIECE_BYTES", 2**30)
    monkeypatch.setattr(sifting, "FIRST_BYTES", 0)
    monkeypatch.setattr(sifting, "Gate", partial(Gate, scan_from_bytes=scan_from_bytes))
    monkeypatch.setattr(sifting, "is_sparse", lambda _batches: False)
    pieces = sifting.pieces_of(sort_by_job([Input(name=str(log))]))
    found = sifting.Sieve(1, pieces, 2).sift(pieces[0])
    assert found is not None
    passed = [raw.decode() for _, raw in found.candidates]
    assert passed.count(failed) == 2
    begin = passed.index("Last error:")
    assert passed[begin - 1 : begin + 2] == quoted
    assert len(passed) < 12
