"""Storage backends: each module is in the table, each line of the table opens what it names, its extra installs it."""

import contextlib
import re
import tomllib
from pathlib import Path

import pytest

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.checkpoint.stores import BACKENDS, open_store
from raybench.benchmarks.checkpoint.stores.folder import FolderStore
from raybench.benchmarks.checkpoint.stores.store import StoreError
from raybench.errors import UsageError
from tests.benchmarks.checkpoint.servers import PLACES

ROOT = Path(__file__).parents[3]
STORES = ROOT / "raybench/benchmarks/checkpoint/stores"


def test_every_module_of_stores_is_a_line_of_the_table() -> None:
    modules = {path.stem for path in STORES.glob("*.py")} - {"__init__", "store"}
    listed = {backend.module.rpartition(".")[2] for backend in BACKENDS.values()}
    assert modules - listed == set(), "add its line to BACKENDS in raybench/benchmarks/checkpoint/stores/__init__.py"
    assert listed - modules == set(), "BACKENDS names a module that is not there"


@pytest.mark.parametrize("scheme", BACKENDS)
def test_every_scheme_is_taken_by_the_options_and_opened_as_what_it_names(scheme: str, tmp_path: Path) -> None:
    """Nothing but file:// may end as a local folder: whoever asks for a bucket would lose the checkpoint."""
    place = f"{scheme}://{tmp_path}" if scheme == "file" else f"{scheme}://bucket{tmp_path}"
    assert CheckpointOptions(to=(place,)).to == (place,)
    with contextlib.suppress(StoreError):  # of a place that cannot be asked: it was not taken for a folder
        store = open_store(place, endpoint=None, limit_seconds=1.0)
        assert isinstance(store, FolderStore) == (scheme == "file")
        assert store.where == (str(tmp_path) if scheme == "file" else place)


def test_a_scheme_that_no_backend_has_is_refused() -> None:
    with pytest.raises(StoreError, match="ftp://host/path is not a place for checkpoints"):
        open_store("ftp://host/path", endpoint=None, limit_seconds=1.0)


@pytest.mark.parametrize(
    "rest", ["bucket/../other", "../bucket", "/bucket/x", "bucket//x", "bucket/./x", "bucket//", ".."]
)
@pytest.mark.parametrize("scheme", sorted(set(BACKENDS) - {"file"}))
def test_a_place_that_may_lead_to_another_bucket_is_refused(scheme: str, rest: str) -> None:
    place = f"{scheme}://{rest}"
    with pytest.raises(UsageError, match=rf"--to '{re.escape(place)}' has an empty part, '\.' or '\.\.'"):
        CheckpointOptions(to=(place,))
    with pytest.raises(StoreError, match="has an empty part"):
        open_store(place, endpoint=None, limit_seconds=1.0)


@pytest.mark.parametrize(
    "place", ["s3://bucket/a/..b/c.", "gs://bucket/", "/tmp/../tmp/x", "../there", "file:///tmp/x"]
)
def test_dots_in_names_and_above_folders_are_taken(place: str) -> None:
    assert CheckpointOptions(to=(place,)).to == (place,)


@pytest.mark.parametrize("scheme", BACKENDS)
def test_an_endpoint_is_refused_where_no_place_has_one(scheme: str) -> None:
    """It was passed over: whoever named a server believed that it was stored there."""
    place, url = f"{scheme}://bucket", "http://storage:9000"
    if BACKENDS[scheme].endpoint:
        assert CheckpointOptions(to=(place, "folder"), endpoint=url).endpoint == url
        return
    with pytest.raises(UsageError, match=r"--endpoint is for s3:// and gs://; leave it out, or write a folder"):
        CheckpointOptions(to=(place,), endpoint=url)


@pytest.mark.parametrize("scheme", BACKENDS)
def test_the_library_of_a_backend_is_what_its_extra_installs(scheme: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    backend = BACKENDS[scheme]
    assert (backend.library is None) == (backend.extra is None)
    if backend.library and backend.extra:
        lines = extras.get(backend.extra, [])
        assert any(line.startswith(backend.library) for line in lines), f"pyproject.toml: extra {backend.extra}"


@pytest.mark.parametrize("scheme", BACKENDS)
def test_a_store_gives_back_what_was_written(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert scheme in PLACES, f"add {scheme} to PLACES in tests/benchmarks/checkpoint/servers.py"
    with PLACES[scheme](tmp_path, monkeypatch) as (place, endpoint):
        assert CheckpointOptions(to=(place,), endpoint=endpoint).endpoint == endpoint
        store = open_store(place, endpoint=endpoint, limit_seconds=30.0)
        assert store.write("run/rank-0.bin", [b"0123", b"", b"456789"]) == 10
        assert store.read("run/rank-0.bin") == b"0123456789"
        assert store.read("run/rank-0.bin", start=3, length=4) == b"3456"
        assert store.read("run/rank-0.bin", start=8, length=9) == b"89"
        store.remove("run/rank-0.bin")
        with pytest.raises(StoreError):
            store.read("run/rank-0.bin")
        store.remove("run/rank-0.bin")
        assert not list(tmp_path.rglob("run")), "remove leaves an empty folder"
        impossible = "x" * 5000  # longer than a file's name may be: whatever goes wrong is a StoreError
        hasty = open_store(place, endpoint=endpoint, limit_seconds=2.0)
        for call in (lambda: hasty.write(impossible, [b"0"]), lambda: hasty.remove(impossible)):
            with contextlib.suppress(StoreError):
                call()
