import json
import os
import pickle
from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.inputs.flight_recorder import DamagedDumpError, Recorder


def entry(sequence: int, operation: str = "nccl:all_reduce", size: int = 4) -> dict[str, object]:
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "profiling_name": operation,
        "input_sizes": [[size]],
        "state": "scheduled",
    }


def write(folder: Path, rank: int, entries: list[dict[str, object]]) -> None:
    (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps({"version": "2.5", "entries": entries}))


def test_the_rank_that_is_behind_is_named(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path, rank, [entry(number) for number in range(5 if rank == 2 else 8)])
    (finding,) = [f for f in diagnose_paths([tmp_path]).findings if f.rule == "straggler"]
    assert finding.summary.startswith("Rank 2 is behind: last collective 4, the others are at 7")


def test_different_collectives_are_named(tmp_path: Path) -> None:
    write(tmp_path, 0, [entry(1), entry(2)])
    write(tmp_path, 1, [entry(1), entry(2, "nccl:broadcast")])
    (finding,) = [f for f in diagnose_paths([tmp_path]).findings if f.rule == "collective-mismatch"]
    assert "collective 2" in finding.summary


def test_equal_ranks_give_nothing(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path, rank, [entry(number) for number in range(5)])
    assert not diagnose_paths([tmp_path]).findings


def test_json_dumps_are_read(tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_7").write_text(json.dumps({"entries": [entry(3)]}))
    record = Recorder().read(str(tmp_path / "nccl_trace_rank_7"))
    assert (record.rank, dict(record.last_sequence)) == (7, {"0": 3})


class Malicious:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_nothing_in_a_dump_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [Malicious()]}))
    with pytest.raises(DamagedDumpError, match="plain data only"):
        Recorder().read("nccl_trace_rank_0")
    diagnosis = diagnose_paths([tmp_path])
    assert diagnosis.notes
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"garbage", pickle.dumps([1]), pickle.dumps({"entries": 5}), b"{", b"[]"]
)
def test_damaged_dumps_are_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(content)
    with pytest.raises(DamagedDumpError):
        Recorder().read(str(tmp_path / "nccl_trace_rank_0"))


def begun(number: int, second: float, *, done: bool = True) -> dict[str, object]:
    return {**entry(number), "state": "completed" if done else "started", "time_created_ns": int((1e9 + second) * 1e9)}


def test_who_slept_is_named_though_its_dump_was_taken_after_it_went_on(tmp_path: Path) -> None:
    """Ranks 0 and 1 wait in collective 5 when they are dumped; rank 2, for which they wait, is dumped 40 s later."""
    for rank in range(2):
        write(tmp_path, rank, [*(begun(number, number) for number in range(5)), begun(5, 5, done=False)])
    write(tmp_path, 2, [*(begun(number, number) for number in range(5)), *(begun(n, 30 + n) for n in range(5, 9))])
    (finding,) = [f for f in diagnose_paths([tmp_path]).findings if f.rule == "straggler"]
    assert finding.summary == "Rank 2 came 30.0 s late to collective 5 of process group 0"


def test_who_has_not_come_is_behind(tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path, rank, [*(begun(number, number) for number in range(5)), begun(5, 5, done=False)])
    write(tmp_path, 2, [begun(number, number) for number in range(5)])
    (finding,) = [f for f in diagnose_paths([tmp_path]).findings if f.rule == "straggler"]
    assert finding.summary.startswith("Rank 2 is behind: last collective 4, the others are at 5")


def test_dumps_of_other_moments_of_a_healthy_job_accuse_nobody(tmp_path: Path) -> None:
    for rank in range(3):
        last = 5 + 20 * rank
        write(tmp_path, rank, [*(begun(number, number) for number in range(last)), begun(last, last, done=False)])
    assert not diagnose_paths([tmp_path]).findings


def test_a_rank_whose_collective_does_not_end_is_behind(tmp_path: Path) -> None:
    write(tmp_path, 0, [*(begun(number, number) for number in range(5)), begun(5, 5, done=False)])
    for rank in (1, 2):
        write(tmp_path, rank, [*(begun(number, number) for number in range(6)), begun(6, 5.1, done=False)])
    (finding,) = [f for f in diagnose_paths([tmp_path]).findings if f.rule == "straggler"]
    assert finding.summary.startswith("Rank 0 is behind")


def test_a_dump_in_json_is_known_by_what_it_holds_whatever_its_name(tmp_path: Path) -> None:
    for rank in range(4):
        entries = [
            {
                "collective_seq_id": number,
                "input_sizes": [[4]],
                "pg_id": 0,
                "process_group": ["0", "default_pg"],
                "profiling_name": "nccl:all_reduce",
                "state": "completed" if number < 4 else "scheduled",
            }
            for number in range(1, 4 if rank == 2 else 6)
        ]
        content = {"entries": entries, "nccl_version": "2.27.3", "pg_config": {}, "version": "2.9"}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(content))
    (tmp_path / "settings.json").write_text('{"entries": []}')
    diagnosis = diagnose_paths([tmp_path])
    assert "Rank 2 is behind" in diagnosis.findings[0].summary
    assert diagnosis.counters["flight_records"] == 4
