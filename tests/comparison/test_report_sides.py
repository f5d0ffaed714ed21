"""Studies, fabric tests, preflights and results of torchrun as sides; a folder of runs; what has no figures."""

import json
from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.services.comparing.compare import compare_results, parse_gate
from raybench.services.comparing.sides import side_of

SAMPLES = Path(__file__).parents[1] / "documents" / "samples"
REPORTS = SAMPLES / "reports"
RUNS = sorted(SAMPLES.glob("*.json"))
COLLECTIVE = next(path for path in RUNS if path.stem.startswith("collective"))
CHECKPOINT = next(path for path in RUNS if path.stem.startswith("checkpoint"))
TRAINING = next(path for path in RUNS if path.stem.startswith("training"))
FABRIC, PREFLIGHT = REPORTS / "fabric-ad9229c.json", REPORTS / "preflight-c2e590d.json"
STUDIES = [REPORTS / f"study-{name}-7e1ee8f.json" for name in ("network", "strategy", "scaling")]


@pytest.mark.parametrize("path", [*RUNS, *STUDIES, FABRIC, PREFLIGHT], ids=lambda path: path.stem)
def test_a_result_beside_itself_is_no_difference(path: Path) -> None:
    found = compare_results([path, path])
    assert found.remarks == (f"{path} is the same result as {path}",)
    speeds = [one for one in found.compared if one.unit in ("s", "us", "Gb/s")] or found.compared
    wide = all(one.difference == "cannot tell" for one in speeds) and found.kind != "preflight"
    assert (
        not {COLLECTIVE, CHECKPOINT, FABRIC, TRAINING} & {path} or wide
    )  # few samples, emulated nodes, one test a path
    same = "warning" if found.kind == "preflight" else "ok"  # hosts that failed before fail still
    assert (found.verdict, found.exit_code, found.differences) == (("unknown", 3) if wide else (same, 0)) + ((),)
    said = "cannot tell in " if wide else "no difference in "
    assert found.kind == "preflight" or found.verdict_reason.startswith(said)
    for one in found.compared:
        assert one.low is not None
        assert one.high is not None
        assert one.difference == ("no difference" if one.low > 1 / 1.05 and one.high < 1.05 else "cannot tell")
    assert found.compared or found.kind == "preflight"


def test_a_path_that_lost_bandwidth_is_found(tmp_path: Path) -> None:
    content = json.loads(FABRIC.read_text(encoding="utf-8"))
    ends = next(one for one in content["pairs"] if one["value"])
    ends["value"] *= 0.5
    slower = tmp_path / "slower.json"
    slower.write_text(json.dumps(content), encoding="utf-8")
    found = compare_results([FABRIC, slower], gate="20%")
    assert (found.verdict, found.exit_code) == ("critical", 1)
    (worse,) = [one for one in found.figures if one.regression]
    assert worse.point == f"{ends['source']['host']} -> {ends['destination']['host']}"


@pytest.mark.parametrize(
    ("verdict", "gate", "said", "exit_code"),
    [("warn", "5%", "critical", 1), ("warn", None, "warning", 0), ("unknown", "5%", "unknown", 3)],
)
def test_a_check_that_is_worse_is_found_and_one_that_is_not_seen_is_open(
    verdict: str, gate: str | None, said: str, exit_code: int, tmp_path: Path
) -> None:
    content = json.loads(PREFLIGHT.read_text(encoding="utf-8"))
    host = next(one for one in content["hosts"] if one["reached"] and one["verdict"] == "fail")
    check = next(one for one in host["checks"] if one["verdict"] == "pass")
    check["verdict"] = verdict
    for name, by in (("pass", -1), (verdict, 1)):
        content["summary"]["checks"][name] = content["summary"]["checks"].get(name, 0) + by
    after = tmp_path / "after.json"
    after.write_text(json.dumps(content), encoding="utf-8")
    found = compare_results([PREFLIGHT, after], gate=gate)
    assert (found.verdict, found.exit_code) == (said, exit_code)
    assert f"{host['host']} {check['check']}: pass before, {verdict} now" in found.verdict_reason


def test_a_folder_of_runs_is_one_side(tmp_path: Path) -> None:
    content = json.loads(COLLECTIVE.read_text(encoding="utf-8"))
    for day, name in enumerate(("a", "b", "c"), 1):
        (tmp_path / name).mkdir()
        run = {**content, "started_at": f"2026-12-0{day}T00:00:00+00:00"}
        (tmp_path / name / "result.json").write_text(json.dumps(run), encoding="utf-8")
    side = side_of(tmp_path)
    assert len(side.run_ids) == 3
    assert {len(figure.runs) for figure in side.figures.values()} == {3}
    found = compare_results([tmp_path, COLLECTIVE])
    assert {one.repeated for one in found.compared} == {"runs"}


def test_a_folder_of_runs_of_unlike_machines_is_not_taken_for_one(tmp_path: Path) -> None:
    content = json.loads(COLLECTIVE.read_text(encoding="utf-8"))
    for name, backend in (("a", content["cluster"]["backend"]), ("b", "other")):
        (tmp_path / name).mkdir()
        changed = content | {"cluster": content["cluster"] | {"backend": backend}}
        (tmp_path / name / "result.json").write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(UsageError, match="unlike machines: backend"):
        compare_results([COLLECTIVE, tmp_path])


def test_a_result_of_torchrun_is_compared(tmp_path: Path) -> None:
    content = {
        "world_size": 2,
        "backend": "gloo",
        "schema": "raybench.standalone/1",
        "status": "complete",
        "errors": {},
        "ranks": {},
        "benchmarks": json.loads(COLLECTIVE.read_text(encoding="utf-8"))["benchmarks"],
    }
    path = tmp_path / "points.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    found = compare_results([path, path])
    assert (found.kind, {one.difference for one in found.compared}) == (
        "torchrun",
        {"cannot tell"},
    )  # a few samples, small messages


@pytest.mark.parametrize("name", ["expected-c973227", "diagnosis-c973227", "estimate-e661440"])
def test_what_has_no_figures_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no figures to compare"):
        side_of(REPORTS / f"{name}.json")


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UsageError):
            side_of(path)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0.05", 0.05), (" 12.5% ", 0.125)])
def test_a_gate_is_a_share(text: str, share: float) -> None:
    assert parse_gate(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["5", "", "%", "-5%", "100%", "0", "nan", "nan%", "inf", "1e999", "five"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 5%"):
        parse_gate(text)
