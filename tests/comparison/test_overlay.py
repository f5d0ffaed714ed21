"""Curves of several results over each other: which there are, and that they are in the file."""

import json
from pathlib import Path

import pytest

from raybench.comparison.overlay import panels_of
from raybench.comparison.run_side import run_side
from raybench.documents.run.result import RunResult
from raybench.errors import UsageError
from raybench.services.comparing.compare import compare_results
from tests.comparison.recorded import FULL, side

SAMPLES = Path(__file__).parents[1] / "documents/samples"
COLLECTIVE, TRAINING = (next(SAMPLES.glob(f"{kind}*.json")) for kind in ("collective", "training"))


def test_losses_and_steps_of_trainings_are_drawn() -> None:
    result = RunResult.of_json(json.loads(TRAINING.read_text(encoding="utf-8")), "it")
    panels = panels_of([run_side(name, [result]) for name in ("A", "B")])
    assert [(panel.title, panel.emulated) for panel in panels] == [("loss", True), ("step time", True)]
    point = result.benchmarks[0].workload[0]
    losses, steps = panels
    assert [(one.side, one.label, one.values) for one in losses.curves] == [
        (0, "A", point.losses),
        (1, "B", point.losses),
    ]
    assert steps.curves[0].values == pytest.approx([1e3 * one for one in point.samples_seconds])


def test_bandwidth_is_over_message_size_alone() -> None:
    result = RunResult.of_json(json.loads(COLLECTIVE.read_text(encoding="utf-8")), "it")
    (panel,) = panels_of([run_side("A", [result])])
    points = [point for point in result.benchmarks[0].points if point.samples_seconds]
    assert panel.title == "bandwidth"
    assert panel.curves[0].places == tuple(sorted(float(point.message_bytes) for point in points))
    assert panel.curves[0].values[0] == pytest.approx(points[0].algbw_gb_per_s, rel=0.2)
    assert panels_of([side(FULL[0])]) == ()  # one size is no curve


@pytest.mark.parametrize(("name", "head"), [("it.svg", b"<?xml"), ("it.png", b"\x89PNG"), ("it.pdf", b"%PDF")])
def test_the_file_has_every_result(tmp_path: Path, name: str, head: bytes) -> None:
    other = tmp_path / "other-run.json"
    other.write_bytes(TRAINING.read_bytes())
    compare_results([TRAINING, other], plot=tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(head)
    assert name != "it.svg" or (b"other-run.json" in content and b"step time" in content)


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.svg, \.png, \.pdf"):
        compare_results([TRAINING, TRAINING], plot=tmp_path / "it.txt")
    preflight = SAMPLES / "reports/preflight-c2e590d.json"
    with pytest.raises(UsageError, match="no losses, step times or bandwidths"):
        compare_results([preflight, preflight], plot=tmp_path / "it.svg")
    with pytest.raises(UsageError, match="cannot be written"):
        compare_results([TRAINING, TRAINING], plot=tmp_path / "none/it.svg")
