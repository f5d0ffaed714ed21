"""Ranks save to real storages and load again; what is damaged, missing or unreachable is refused with a reason."""

import io
import json
import os
import pickle
import resource
import sys
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from raybench.benchmarks.checkpoint import benchmark  # noqa: F401 - imported once, before the forks
from raybench.benchmarks.checkpoint.benchmark import reason_of
from raybench.benchmarks.checkpoint.combine import checkpoint_point
from raybench.benchmarks.checkpoint.manifest import MANIFEST, CheckpointError
from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.checkpoint.record import CheckpointRecord
from raybench.benchmarks.checkpoint.storage import (
    ManifestReader,
    ManifestWriter,
    check_checkpoint,
    decompress,
    read_manifest,
)
from raybench.benchmarks.checkpoint.stores import gcs, probe
from raybench.benchmarks.checkpoint.stores.folder import FolderStore
from raybench.benchmarks.checkpoint.stores.gcs import GcsStore
from raybench.benchmarks.checkpoint.stores.store import Heartbeat, StoreError, call_with_timeout
from raybench.benchmarks.events import Event, RankFailed, WorkloadMeasured
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.cli.checkpoint import command as checkpoint_command
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.errors import ProblemFoundError, UsageError
from raybench.reports.workloads.table import workload_sections
from tests.benchmarks.checkpoint.servers import gcs_emulator, keys, s3_server, use_test_credentials
from tests.benchmarks.gloo_ranks import run_ranks

TINY_BYTES = 3 * 4 * 158016  # parameters and two moments in float32


def saved(ranks: int = 2, **options: Any) -> dict[str, CheckpointPoint]:
    """The points of a run, by label."""
    spec = BenchmarkSpec(
        name="checkpoint",
        kind="checkpoint",
        sizes=(),
        options=CheckpointOptions(**{"model": "tiny", "saves": 1, "limit_seconds": 20.0} | options),
    )
    events = run_ranks(ranks, [spec], seconds=120)
    assert [event for heard in events for event in heard if isinstance(event, RankFailed)] == []
    labels = spec.options.labels()
    return {label: checkpoint_point([_records(events, label)]) for label in labels}


def _records(events: list[list[Event]], label: str) -> dict[int, CheckpointRecord]:
    measured = [event for heard in events for event in heard if isinstance(event, WorkloadMeasured)]
    return {
        event.rank: event.record
        for event in measured
        if isinstance(event.record, CheckpointRecord) and event.record.label == label
    }


def test_a_folder_gets_back_what_was_saved_in_every_layout_and_mode(tmp_path: Path) -> None:
    points = saved(to=(str(tmp_path / "there"),), saves=2, compression="zlib")
    assert len(points) == 4
    for label, point in points.items():
        assert (point.failed, point.wrong, point.verified) == (None, None, True), label
        assert point.tensor_bytes == TINY_BYTES
        assert 0 < point.stored_bytes < point.tensor_bytes
        assert len(point.durable_seconds) == len(point.load_seconds) == 2
        assert all(
            blocked <= durable for blocked, durable in zip(point.blocked_seconds, point.durable_seconds, strict=True)
        )
        assert point.writing_ranks == (2 if label.startswith("sharded") else 1)
        assert point.kept is None
    assert list((tmp_path / "there").glob("raybench-*")) == []


def test_what_is_kept_is_named(tmp_path: Path) -> None:
    place = tmp_path / "my models"
    (point,) = saved(1, to=(str(place),), layouts=("full",), modes=("sync",), keep=True).values()
    assert point.kept
    assert CliRunner().invoke(checkpoint_command, ["--inspect", point.kept]).exit_code == 0
    done = BenchmarkResult(
        name="checkpoint", kind="checkpoint", status="complete", parameters={"model": "tiny"}, workload=(point,)
    )
    (section,) = workload_sections([done])
    assert f"full sync {place}: kept; raybench checkpoint --inspect '{point.kept}'" in section.notes


def test_s3_is_saved_to_while_unreachable_and_forbidden_places_fail_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_test_credentials(monkeypatch)
    with s3_server(tmp_path) as url:
        import boto3

        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="there")
        blocked = tmp_path / "a-file"
        blocked.write_text("")
        places = ("s3://not-there/x", str(blocked / "below"), "s3://there/some/prefix")
        points = saved(to=places, endpoint=url, layouts=("sharded",), modes=("async",))
        missing, forbidden, good = points.values()
        assert "NoSuchBucket" in str(missing.failed)
        assert "cannot be written" in str(forbidden.failed)
        assert (good.failed, good.verified, good.tensor_bytes) == (None, True, TINY_BYTES)
        assert keys(url, "there") == []


def test_a_storage_that_does_not_answer_fails_within_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    use_test_credentials(monkeypatch)
    with pytest.raises(StoreError, match=r"did not answer within 0\.2 s"):
        call_with_timeout(lambda: __import__("time").sleep(5), 0.2, "s3://slow")
    (point,) = saved(
        1, to=("s3://x/y",), endpoint="http://127.0.0.1:1", layouts=("full",), modes=("sync",), limit_seconds=3
    ).values()
    assert "s3://x/y" in str(point.failed)


class SlowFiles:
    """A bucket that takes 0.3 s for each write that it is sent, as an upload of many requests does."""

    def open(self, *_: str) -> io.BytesIO:
        slow = io.BytesIO()

        class Slow(io.BytesIO):
            def write(self, data: Any, /) -> int:
                time.sleep(0.3)
                return slow.write(data)

        return Slow()


def test_a_long_upload_has_the_limit_of_a_request_for_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of gigabytes takes longer than one request may; a piece that gets stuck is still found."""
    monkeypatch.setattr(gcs, "_PIECE_BYTES", 2**20)
    store = GcsStore.__new__(GcsStore)
    store._place, store.where, store._files = "bucket", "gs://bucket", SlowFiles()
    store._limit = 2.0
    assert store.write("x", [bytes(7 * 2**20), bytes(10)]) == 7 * 2**20 + 10  # eight pieces, 2.4 s
    store._limit = 0.1
    with pytest.raises(StoreError, match=r"gs://bucket did not answer within 0\.1 s"):
        store.write("x", [b"1"])
    with pytest.raises(StoreError, match="did not answer"):
        call_with_timeout(lambda: time.sleep(5), 0.1, "gs://bucket", Heartbeat())


def test_gcs_gets_back_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gcs_emulator(tmp_path, "there") as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        (point,) = saved(1, to=("gs://there/prefix",), layouts=("sharded",), modes=("sync",), limit_seconds=99).values()
        assert (point.failed, point.verified, point.tensor_bytes) == (None, True, TINY_BYTES)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A small finished checkpoint of one process."""
    state = {"a": torch.arange(1000.0), "b": torch.ones(3, 5, dtype=torch.bfloat16), "empty": torch.empty(0)}
    save(state, storage_writer=ManifestWriter(FolderStore(tmp_path), "one", rank=0, compression="none"), no_dist=True)
    return tmp_path / "one"


def loaded(folder: Path) -> dict[str, torch.Tensor]:
    state = {"a": torch.zeros(1000), "b": torch.zeros(3, 5, dtype=torch.bfloat16), "empty": torch.empty(0)}
    store = FolderStore(folder.parent)
    load(state, storage_reader=ManifestReader(store, folder.name, read_manifest(store, folder.name)), no_dist=True)
    return state


def refusal(folder: Path) -> str:
    """Why loading, and checking alike, refuse a checkpoint."""
    with pytest.raises((CheckpointError, torch.distributed.checkpoint.api.CheckpointException)) as error:
        loaded(folder)
    with pytest.raises(CheckpointError) as checked:
        check_checkpoint(FolderStore(folder.parent), folder.name)
    assert str(checked.value) in f"{error.value}"
    return str(checked.value)


def test_a_whole_checkpoint_loads(checkpoint: Path) -> None:
    state = loaded(checkpoint)
    assert torch.equal(state["a"], torch.arange(1000.0))
    assert torch.equal(state["b"], torch.ones(3, 5, dtype=torch.bfloat16))
    assert check_checkpoint(FolderStore(checkpoint.parent), "one") == 1000 * 4 + 15 * 2


def test_truncated_data_are_refused(checkpoint: Path) -> None:
    os.truncate(checkpoint / "rank-0.bin", 2000)
    assert "rank-0.bin is cut off" in refusal(checkpoint)


def test_one_changed_bit_is_refused(checkpoint: Path) -> None:
    data = bytearray((checkpoint / "rank-0.bin").read_bytes())
    data[1234] ^= 1
    (checkpoint / "rank-0.bin").write_bytes(data)
    assert "do not match their checksum" in refusal(checkpoint)


def test_a_missing_file_is_refused(checkpoint: Path) -> None:
    (checkpoint / "rank-0.bin").unlink()
    assert "rank-0.bin, which holds" in refusal(checkpoint)


def test_an_unfinished_checkpoint_is_refused(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).unlink()
    assert "is not a finished checkpoint" in refusal(checkpoint)


def test_a_cut_or_altered_manifest_is_refused(checkpoint: Path) -> None:
    whole = (checkpoint / MANIFEST).read_bytes()
    (checkpoint / MANIFEST).write_bytes(whole[:-40])
    assert "cannot be read" in refusal(checkpoint)
    (checkpoint / MANIFEST).write_bytes(whole.replace(b"1000", b"1001", 1))
    assert "does not match its checksum" in refusal(checkpoint)


def forged(checkpoint: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """The checkpoint with an altered manifest whose checksum is right."""
    content = json.loads((checkpoint / MANIFEST).read_bytes())["content"]
    edit(content)
    text = json.dumps(content, separators=(",", ":")).encode()
    (checkpoint / MANIFEST).write_bytes(b'{"crc32":%d,"content":%s}' % (zlib.crc32(text), text))
    return checkpoint


def part(content: dict[str, Any]) -> dict[str, Any]:
    return content["tensors"]["a"]["parts"][0]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda content: part(content).update(file="../secret"), "names the file '../secret' for a"),
        (lambda content: content["tensors"]["a"].update(dtype="load"), "names the type 'load' for a"),
        (lambda content: content.update(compression="rot13"), "names the compression 'rot13'"),
        (lambda content: part(content).update(sizes=[10**15]), "has a part outside the shape [1000] for a"),
        (lambda content: part(content).update(sizes=[-1]), "has a part outside the shape"),
        (lambda content: part(content).update(offsets=[0, 0]), "has a part outside the shape"),
        (lambda content: part(content).update(length=2**70), "has a part outside the shape"),
        (
            lambda content: part(content).update(length=2**50),
            "is cut off: a has 4030 of its 1125899906842624 bytes at 0",
        ),
        (lambda content: part(content).update(sizes=[999]), "has parts that do not make up the shape [1000] for a"),
        (lambda content: content["tensors"]["a"].update(parts=[]), "has parts that do not make up the shape"),
        (lambda content: content.update(tensors={}), "has no tensors"),
    ],
)
def test_a_forged_manifest_is_refused(edit: Callable[[dict[str, Any]], object], words: str, checkpoint: Path) -> None:
    assert words in refusal(forged(checkpoint, edit))


def test_what_is_checked_by_name(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkpoint.parent)
    for place in ("one", "./one/", str(checkpoint), f"file://{checkpoint}"):
        result = CliRunner().invoke(checkpoint_command, ["--inspect", place])
        assert (result.exit_code, "4030 bytes match" in result.stdout) == (0, True), place
    told = json.loads(CliRunner().invoke(checkpoint_command, ["--inspect", "one", "--json"]).stdout)
    assert told == {"place": "one", "whole": True, "stored_bytes": 4030}
    failed = json.loads(CliRunner().invoke(checkpoint_command, ["--inspect", "two", "--json"]).stdout)
    assert (failed["whole"], "two: there is no such folder" in failed["reason"]) == (False, True)
    error = CliRunner().invoke(checkpoint_command, ["--inspect", "/one"]).exception
    assert isinstance(error, UsageError)
    assert "--inspect /one: there is no such folder" in str(error)
    (checkpoint / MANIFEST).unlink()  # the last file of a save: this one was begun
    error = CliRunner().invoke(checkpoint_command, ["--inspect", "one"]).exception
    assert isinstance(error, ProblemFoundError)
    assert "one is not a finished checkpoint" in str(error)
    with pytest.raises(UsageError, match="names no checkpoint in the bucket"):
        CliRunner().invoke(checkpoint_command, ["--inspect", "s3://bucket"], catch_exceptions=False)
    with pytest.raises(UsageError, match="--to is empty"):
        CheckpointOptions(to=("",))


def packed(how: str, data: bytes) -> bytes:
    if how == "zlib":
        return zlib.compress(data)
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


@pytest.mark.parametrize("how", ["zlib", "zstd"])
def test_what_becomes_more_than_belongs_there_is_refused_before_it_fills_the_memory(how: str) -> None:
    assert decompress(packed(how, bytes(1000)), how, 1000) == bytes(1000)
    assert decompress(packed(how, b""), how, 0) == b""
    bomb = packed(how, bytes(2 * 10**8))
    tracemalloc.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match="1001 bytes were stored where 1000 belong"):
        decompress(bomb, how, 1000)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10**5  # KiB
    with pytest.raises(CheckpointError, match="999 bytes were stored where 1000 belong"):
        decompress(packed(how, bytes(999)), how, 1000)
    with pytest.raises(CheckpointError, match=r"cannot be decompressed|bytes were stored where"):
        decompress(b"no such thing", how, 1000)


def test_a_library_that_is_missing_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(CheckpointError, match="stored with zstd, and zstandard is not installed here"):
        decompress(b"", "zstd", 1)


def test_the_rank_that_failed_is_named_once() -> None:
    assert reason_of(OSError("disk full"), 3) == "rank 3: disk full"
    failures: Any = {2: (OSError("disk full"), []), 5: (OSError("quota"), [])}
    told = CheckpointException("save", failures)  # what rank 0 hears of the others
    assert reason_of(told, 0) == "rank 2: disk full"


def test_a_folder_that_another_rank_takes_away_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, folder, taken = Path.open, tmp_path / "shared", []

    def open_late(self: Path, *arguments: Any, **options: Any) -> Any:
        if len(taken) < 2:  # another rank has removed its probe: the last file there
            folder.rmdir()
            taken.append(self)
        return real(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_late)
    probe(FolderStore(folder))
    assert len(taken) == 2


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written: File exists"):
        probe(FolderStore(tmp_path / "file"))


def full_disk_of_rank_1(rank: int) -> None:
    real = FolderStore.write

    def write(self: FolderStore, name: str, chunks: Any) -> int:
        if rank == 1 and name.endswith(".bin"):
            raise StoreError("no space left")
        return real(self, name, chunks)

    FolderStore.write = write


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_rank_whose_save_fails_is_named_in_the_point(mode: str, tmp_path: Path) -> None:
    spec = BenchmarkSpec(
        name="checkpoint",
        kind="checkpoint",
        sizes=(),
        options=CheckpointOptions(
            to=(str(tmp_path),), model="tiny", layouts=("sharded",), modes=(mode,), saves=1, limit_seconds=20.0
        ),
    )
    events = run_ranks(2, [spec], sabotage=full_disk_of_rank_1)
    labels = spec.options.labels()
    failed = str(checkpoint_point([_records(events, labels[0])]).failed)
    assert failed.startswith("rank 1: ")
    assert (failed.count("rank 1"), "no space left" in failed) == (1, True)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


@pytest.mark.parametrize("name", [MANIFEST, "rank-0.bin", ".metadata"])
def test_nothing_that_is_loaded_is_executed(name: str, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkpoint)
    (checkpoint / name).write_bytes(pickle.dumps(Bomb()))
    if name == ".metadata":
        loaded(checkpoint)
    else:
        refusal(checkpoint)
    assert not (checkpoint / "executed").exists()
