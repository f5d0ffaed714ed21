"""Outputs of ``dcgmi diag -j`` of DCGM 3 and 4: what each test said, and what the check makes of it."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from raybench.benchmarks.node_tests import diag
from raybench.benchmarks.node_tests.dcgm_answer import read_diag
from raybench.preflight.node_tests.judgement import judge
from raybench.preflight.node_tests.plan import CHECKS
from tests.benchmarks.node_tests.said import SMALL, figures_of
from tests.preflight.node_tests.answers import host_tests, load

NOT_RUN = (
    '{"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory", "results": '
    '[{"entity_group": "GPU", "entity_id": 0, "status": "Not Run"}]}]}]}}'
)
FAILED = (
    '{"DCGM Diagnostic": {"tests": [{"name": "%s", "results": '
    '[{"entity_id": 0, "status": "Fail", "warnings": [{"warning": "%s"}]}]}]}}'
)
RECORDED = Path(__file__).with_name("recorded_dcgm")
DCGM = tuple(one for one in CHECKS if one.name == "test-dcgm")


def judged(said: str, status: int = 0) -> tuple[str, str]:
    """The verdict of the check of an output, and what it says."""
    figures = [{"figure": one._asdict()} for one in read_diag(said, status)]
    results = judge({"n1": host_tests(*load(), *figures)}, {}, DCGM)["n1"]
    found = next(one for one in results if one.check == "test-dcgm")
    return found.verdict, found.seen


@pytest.mark.parametrize(
    ("name", "verdict", "says"),
    [
        ("v3_pass.json", "pass", "passed"),
        ("v3_skip.json", "unknown", "skipped every test that uses a GPU: PCIe, GPU Memory"),
        ("v3_fail.txt", "fail", "gpu1 PCIe: GPU 1 PCIe throughput 3.1 GB/s is below"),
        ("v4_pass.json", "pass", "passed"),
        ("v4_persistence.json", "warn", "gpu0 software: Persistence Mode: Persistence mode for GPU 0 is disabled."),
        ("v4_memory.json", "fail", "gpu1 memory: Uncorrectable ECC memory error detected (error 12)"),
        ("v4_skipped_on_gb10.json", "unknown", "skipped every test that uses a GPU: pcie, memory, targeted_stress"),
        ("no_host_engine.txt", "unknown", "unable to establish a connection"),
    ],
)
def test_each_recorded_output_has_its_verdict(name: str, verdict: str, says: str) -> None:
    found, seen = judged((RECORDED / name).read_text())
    assert found == verdict
    assert says in seen


def test_a_failure_names_only_the_gpu_that_failed() -> None:
    seen = judged((RECORDED / "v4_memory.json").read_text())[1]
    assert "gpu0" not in seen
    assert "Persistence" not in seen


@pytest.mark.parametrize(
    "said",
    [
        "",
        "{",
        "[1, 2]",
        '{"DCGM Diagnostic": {"test_categories": []}}',
        '{"DCGM Diagnostic": {"test_categories": [{"category": 7, "tests": [null, {"name": null}]}]}}',
        NOT_RUN,
        '{"DCGM GPU Diagnostic": {"runtime_error": "Detected unsupported NVML", "test_categories": []}}',
        "{" * 2000,
    ],
)
def test_what_says_nothing_or_has_another_form_is_unknown(said: str) -> None:
    assert judged(said)[0] == "unknown"


def test_a_status_that_contradicts_its_results_is_no_pass() -> None:
    verdict, seen = judged((RECORDED / "v4_pass.json").read_text(), status=4)
    assert (verdict, "ended with 4" in seen) == ("unknown", True)


def test_a_failure_without_a_grade_stays_a_failure_and_a_setting_by_its_words_does_not() -> None:
    assert judged(FAILED % ("pcie", "AER error"))[0] == "fail"
    assert judged(FAILED % ("software", "Persistence Mode: Persistence mode for GPU 0 is disabled."))[0] == "warn"


@pytest.fixture
def dcgmi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a program in dcgmi's place."""

    def put(script: str) -> Path:
        program = tmp_path / "dcgmi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        return tmp_path / "told"

    return put


def test_it_is_called_with_its_level_and_read(dcgmi: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    told = dcgmi(f'echo "$@" > "$(dirname "$0")/told"; cat {RECORDED / "v4_memory.json"}; exit 226')
    figures = figures_of(diag.run, capsys, SMALL._replace(diag_level=3))
    assert told.read_text() == "diag -r 3 -j\n"
    assert [one["device"] for one in figures if one["status"] == "failed"] == ["gpu1"]


def test_one_that_hangs_is_asked_to_stop_and_ended(
    dcgmi: Callable[[str], Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diag, "_STOP_SECONDS", 20.0)
    told = dcgmi('trap \'echo stopped > "$(dirname "$0")/told"; exit\' INT; while :; do sleep 0.05; done')
    (only,) = figures_of(diag.run, capsys, SMALL._replace(seconds=23.0))
    assert (only["status"], only["reason"]) == ("missing", "dcgmi diag did not end within 3 s")
    assert told.read_text() == "stopped\n"


def test_a_host_without_dcgmi_skips_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diag.shutil, "which", lambda *_, **__: None)
    assert [one["status"] for one in figures_of(diag.run, capsys)] == ["skipped"]
