"""The cap below a C library: a FILE* that is never reopened cannot write past it, and head and tail are kept."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from raybench.benchmarks.rank.folder import PASSING
from raybench.benchmarks.training.exposure.overlap import trace_name
from raybench.execution.log_files import (
    FLIGHT_RECORD,
    LogCap,
    capped_log,
    log_name,
    output_name,
    piece_path,
    remove_files_of_ranks,
    tail_of,
)
from raybench.execution.ranks.rank_host_process import LOG

LIMIT = 20_000
LINE = 100


@pytest.fixture
def library() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    library.fputs.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
    library.fflush.argtypes = library.fclose.argtypes = [ctypes.c_void_p]
    return library


def c_file(library: ctypes.CDLL, path: Path) -> tuple[Callable[[int], None], Callable[[], None]]:
    """A file opened once by C's own stdio, as NCCL opens its log: a function that writes a numbered line, and close."""
    file = library.fopen(os.fsencode(path), b"w")
    assert file

    def write(number: int) -> None:
        library.fputs(f"line {number:08d} ".ljust(LINE - 1, "x").encode() + b"\n", file)
        library.fflush(file)

    return write, lambda: library.fclose(file)


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.parametrize("every", [1, 7, 40])
def test_a_log_that_never_ends_stays_below_its_limit_on_disk(tmp_path: Path, library: ctypes.CDLL, every: int) -> None:
    path = tmp_path / "nccl-rank-0.log"
    cap, (write, close) = LogCap(path, LIMIT), c_file(library, path)
    largest = 0
    for number in range(3000):
        write(number)
        if number % every == 0:
            cap.enforce()
            largest = max(largest, on_disk(tmp_path))
    close()
    assert largest <= 1.5 * LIMIT + 3 * every * LINE  # the first half, the last full half, the current one
    log = capped_log(path, LIMIT).decode()
    assert len(log) <= LIMIT + 200
    assert log.startswith("line 00000000 ")
    assert f"line {2999:08d} " in log.splitlines()[-1]
    assert log.count("[raybench: an unknown number of bytes left out here") == 1


def test_a_log_within_its_limit_is_left_alone(tmp_path: Path, library: ctypes.CDLL) -> None:
    path = tmp_path / "nccl-rank-0.log"
    cap, (write, close) = LogCap(path, LIMIT), c_file(library, path)
    for number in range(LIMIT // 2 // LINE - 1):
        write(number)
        cap.enforce()
    close()
    assert list(tmp_path.iterdir()) == [path]
    assert capped_log(path, LIMIT) == path.read_bytes()


def test_the_tail_holds_the_last_lines_in_order(tmp_path: Path, library: ctypes.CDLL) -> None:
    path = tmp_path / "nccl-rank-0.log"
    cap, (write, close) = LogCap(path, LIMIT), c_file(library, path)
    for number in range(1234):
        write(number)
        cap.enforce()
    close()
    head, _, tail = capped_log(path, LIMIT).decode().partition("[raybench:")
    numbers = [int(line.split()[1]) for line in tail.splitlines()[1:] if line.startswith("line ")]
    assert numbers[-1] == 1233
    assert numbers == list(range(numbers[0], 1234))
    assert len(numbers) > LIMIT // 2 // LINE // 2
    first = [int(line.split()[1]) for line in head.splitlines() if line.startswith("line ")]
    assert first == list(range(len(first)))
    assert len(first) == LIMIT // 2 // LINE


def test_without_a_log_and_without_a_descriptor_nothing_happens(tmp_path: Path) -> None:
    cap = LogCap(tmp_path / "none.log", LIMIT)
    cap.enforce()
    (tmp_path / "none.log").write_bytes(b"x" * LIMIT)
    cap.enforce()
    assert [path.name for path in tmp_path.iterdir()] == ["none.log"]


def test_a_long_log_that_nobody_capped_is_cut_with_the_exact_number(tmp_path: Path) -> None:
    path = tmp_path / "output-rank-0.log"
    path.write_bytes(b"A" * 500 + b"B" * 1000 + b"C" * 500)
    cut = capped_log(path, 1000)
    assert cut.startswith(b"A" * 500 + b"\n[raybench: 1000 bytes left out here")
    assert cut.endswith(b"C" * 500)
    path.write_bytes(b"A" * 1000)
    assert capped_log(path, 1000) == b"A" * 1000


def test_pieces_of_another_rank_are_not_mixed_in(tmp_path: Path) -> None:
    one, other = tmp_path / "nccl-rank-1.log", tmp_path / "nccl-rank-10.log"
    one.write_bytes(b"one")
    other.write_bytes(b"ten")
    piece_path(other, 1).write_bytes(b"more of ten")
    assert capped_log(one, 1000) == b"one"


def test_the_tail_of_a_file_and_of_none(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("x" * 5000 + "end")
    assert len(tail_of(path)) == 2000
    assert tail_of(path).endswith("end")
    assert tail_of(tmp_path / "none") == ""


def test_the_next_run_of_a_warm_node_actor_finds_nothing_of_the_one_before(tmp_path: Path) -> None:
    """A trace is left out of no list: the next run would have brought it home as its own."""
    of_ranks = [log_name(0), f"{log_name(12)}.3", output_name(0), trace_name(1, "ddp"), f"{FLIGHT_RECORD}1"]
    of_the_node_actor = [LOG, "ranks", ".owner"]
    for name in (*of_ranks, *of_the_node_actor):
        (tmp_path / name).touch()
    (tmp_path / f"{PASSING}k1" / "deeper").mkdir(parents=True)
    remove_files_of_ranks(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(of_the_node_actor)
