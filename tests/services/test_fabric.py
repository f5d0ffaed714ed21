"""A fabric test as a call: what it takes, and what is kept. Measured between hosts: tests/playbooks, tests/lab/rdma."""

from pathlib import Path

import pytest

import raybench
from raybench.errors import UsageError
from raybench.services.fabric import FabricOptions, keep, measure_fabric, plan

SAMPLE = Path(__file__).parents[1] / "documents" / "samples" / "reports" / "fabric-ad9229c.json"


def test_a_plan_says_rounds_and_whether_planted_faults_are_found() -> None:
    planned = plan({"nodes": 8, "scope": "all", "leaf": None, "simulate": True, "trials": 20})
    assert [one.rounds for one in planned.scopes if one.scope == "all"] == [7]
    assert planned.simulation is not None
    found = planned.simulation.exact == planned.simulation.trials
    assert planned.exit_code == (0 if found else 1)
    assert plan({"nodes": 8}).exit_code == 0


def test_a_report_is_kept_with_its_page_and_never_fine_where_it_could_not_be(tmp_path: Path) -> None:
    report = raybench.load(SAMPLE)
    finished = keep(report, tmp_path)
    assert (finished.kept, finished.exit_code, finished.remarks) == (True, report.conclusion.exit_code, ())
    assert raybench.load(dict(finished.files)["report"]) == report
    assert "<html" in dict(finished.files)["page"].read_text()
    lost = keep(report, tmp_path / "gone")
    assert (lost.kept, lost.files) == (False, ())
    assert lost.exit_code == (report.conclusion.exit_code or 3)
    assert "fabric.json could not be written" in lost.remarks[0]


@pytest.mark.parametrize(
    ("inventory", "settings", "said"),
    [("only,", {}, "at least two hosts"), ("a,b", {"seconds": 0}, "fabric_seconds is 0")],
)
def test_what_cannot_be_measured_is_refused_and_leaves_no_folder(
    tmp_path: Path, inventory: str, settings: dict[str, int], said: str
) -> None:
    options = FabricOptions(inventory=[inventory], output_dir=str(tmp_path / "runs"), settings=settings)
    with pytest.raises(UsageError, match=said):
        measure_fabric(options, begun=lambda _: pytest.fail("begun"))
    assert not (tmp_path / "runs").exists()
