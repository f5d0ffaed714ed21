"""A collection as a call: what is fetched from this machine, and how it ends by what was found.

What it fetches over ssh is in tests/playbooks/test_collect_lab.py.
"""

from pathlib import Path
from typing import Any

import pytest

import raybench
from diagnostics.engine import diagnose_paths
from raybench.documents.collection import CollectedFile, CollectedHost, CollectionReport
from raybench.errors import UsageError
from raybench.processes.interrupt import Interrupt
from raybench.services.collect import CollectOptions, collect

CASES = Path(__file__).parents[1] / "diagnostics" / "cases"
BAD = CASES / "duplicate-gpu/classic/input.log"
UNKNOWN = "n1:7:7 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n"


def collected(*files: CollectedFile, **more: Any) -> CollectionReport:
    host = CollectedHost(
        name="a", status="complete", files=files, fetched_bytes=1, resumed=0, problems=(), notes=(), facts={}
    )
    return CollectionReport(folder="runs/x/hosts", hosts=(host,), **more)


FILE = CollectedFile(remote="/a", local="a", size_bytes=1, modified_at=0.0, complete=True)


@pytest.mark.parametrize(
    ("report", "verdict", "code"),
    [
        (collected(named_paths=True), "unknown", 3),
        (collected(named_paths=False), "ok", 0),  # hosts on which nothing has run have no logs where they usually are
        (collected(), "unknown", 3),  # an early document: whether a path was named is not in it
        (collected(FILE, named_paths=False), "unknown", 3),  # what was fetched could not be diagnosed
    ],
)
def test_a_path_that_is_on_no_host_is_no_success(report: CollectionReport, verdict: str, code: int) -> None:
    assert (report.verdict, report.exit_code) == (verdict, code)


@pytest.mark.parametrize(
    ("text", "verdict", "code"),
    [
        ((CASES / "log-truncated/whole/input.log").read_text(), "ok", 0),
        (BAD.read_text(), "critical", 1),
        (UNKNOWN, "unknown", 3),
        ("epoch 1 loss 0.4\n", "warning", 0),  # nothing of NCCL: nothing was to be judged, and it is not called ok
    ],
)
def test_it_ends_as_its_logs_are_judged(tmp_path: Path, text: str, verdict: str, code: int) -> None:
    (tmp_path / "a.log").write_text(text)
    report = collected(FILE, named_paths=True, diagnosis=diagnose_paths([tmp_path / "a.log"]))
    assert (report.verdict, report.exit_code) == (verdict, code)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An inventory of this machine."""
    (tmp_path / "hosts.yml").write_text("all: {hosts: {here: {ansible_connection: local}}}\n")
    return tmp_path / "hosts.yml"


def test_logs_of_this_machine_are_fetched_diagnosed_and_kept(here: Path, tmp_path: Path) -> None:
    (tmp_path / "nccl.log").write_bytes(BAD.read_bytes())
    seen = list[tuple[str, str]]()
    finished = collect(
        CollectOptions(inventory=[here], paths=[str(tmp_path / "nccl*")], output_dir=str(tmp_path / "runs")),
        interrupt=Interrupt(),
        on_host=lambda host: seen.append((host.name, host.status)),
    )
    assert (finished.exit_code, finished.remarks, seen) == (1, (), [("here", "complete")])
    assert raybench.load(Path(finished.report.folder) / "collection.json") == finished.report
    assert finished.diagnosis is not None
    assert finished.diagnosis.verdict == "critical"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"paths": ["logs/*"]}, "is not an absolute path"),
        ({"run_id": "20261121-014502-3f9a"}, "there is no run"),
        ({"file_limit": "1"}, "--file-limit"),
    ],
)
def test_what_cannot_be_collected_is_refused_and_leaves_no_folder(
    here: Path, tmp_path: Path, wrong: dict[str, str], said: str
) -> None:
    options = CollectOptions(inventory=[here], output_dir=str(tmp_path / "runs"), **wrong)
    with pytest.raises(UsageError, match=said):
        collect(options, interrupt=Interrupt())
    assert not (tmp_path / "runs").exists()
