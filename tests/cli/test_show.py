"""``raybench show``: the verdict, tables and reports of a run that is over, as it had them."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import raybench
from raybench.cli.show import command
from raybench.errors import UsageError
from raybench.reports.builders import asked
from raybench.reports.formats import FORMATS
from raybench.reports.html import render_html
from tests.documents.mutation import REPORTS, mutated
from tests.reports.sample import cluster, pairs, run_result, sweep
from tests.reports.synthetic import synthetic_diagnosis

SAMPLES = sorted((Path(__file__).parents[1] / "documents" / "samples").glob("*.json"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that was interrupted, on emulated nodes, with a slow pair."""
    result = run_result(sweep(), pairs(4, slow=[(0, 3)]), status="partial", cluster=cluster(emulated=True))
    (tmp_path / "result.json").write_text(json.dumps(result.to_json()))
    (tmp_path / "diagnosis.json").write_text(json.dumps(synthetic_diagnosis(2, 2).to_json()))
    return tmp_path


def show(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(one) for one in arguments])


def test_the_screen_and_the_tables_have_the_verdict_that_the_run_ended_with(run: Path) -> None:
    verdict = raybench.load(run).conclusion.line
    for arguments in ([run], [run / "result.json"], [run, "--full"]):
        shown = show(*arguments)
        assert (shown.exit_code, shown.exception) == (0, None)
        assert verdict in " ".join(shown.stdout.replace("#", " ").split())
        assert "EMULATED" in shown.stdout


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("output_format", ["text", *FORMATS])
def test_results_of_earlier_versions_are_shown_in_every_format(sample: Path, output_format: str) -> None:
    shown = show(sample, "--format", output_format)
    assert (shown.exit_code, shown.exception) == (0, None)
    assert str(raybench.load(sample).run_id) in shown.stdout


@pytest.mark.parametrize("sample", REPORTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("output_format", ["text", "markdown", "csv", "json"])
def test_documents_of_other_commands_are_shown_too(sample: Path, output_format: str, tmp_path: Path) -> None:
    shown = show(sample, "--format", output_format)
    assert (shown.exit_code, shown.exception) == (0, None)
    document = raybench.load(sample)
    verdict = getattr(document, "verdict", None) or getattr(getattr(document, "conclusion", None), "verdict", "")
    assert str(verdict) in shown.stdout.lower() or output_format in {"csv", "json"}
    (tmp_path / "damaged.json").write_bytes(sample.read_bytes()[:-40])
    assert isinstance(show(tmp_path / "damaged.json", "--format", output_format).exception, UsageError)


def test_a_report_is_the_one_that_was_written_at_the_end(run: Path, tmp_path: Path) -> None:
    assert show(run, "--format", "html", "-o", tmp_path / "again.html").exit_code == 0
    assert (tmp_path / "again.html").read_text() == render_html(
        raybench.load(run), raybench.load(run / "diagnosis.json")
    )
    assert json.loads(show(run, "--format", "json").stdout) == json.loads((run / "result.json").read_text())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without figures, which take longer than all else."""
    monkeypatch.setattr(asked, "has_matplotlib", lambda: False)


@pytest.mark.usefixtures("undrawn")
def test_what_cannot_be_shown_is_said_and_nothing_is_written(run: Path, tmp_path: Path) -> None:
    (run / "diagnosis.json").write_text("{")
    shown = show(run)
    assert shown.exit_code == 0
    assert "shown without the diagnosis of its logs" in shown.stderr
    for arguments, why in (
        ([tmp_path / "none"], "cannot be read"),
        ([run, "--format", "html", "-o", tmp_path / "no" / "where.html"], "cannot be written"),
    ):
        error = show(*arguments).exception
        assert isinstance(error, UsageError)
        assert why in str(error)
    assert "'pdf' is not one of 'text', 'html', 'markdown'" in show(run, "--format", "pdf").output
    assert "--full is for the terminal" in show(run, "--format", "csv", "--full").output
    assert "--output needs --format" in show(run, "-o", tmp_path / "x.txt").output


@pytest.mark.parametrize("damaged", ["result.json", "diagnosis.json"])
def test_whatever_is_damaged_is_shown_or_said_in_one_line(damaged: str, run: Path) -> None:
    whole, chance = json.loads((run / damaged).read_text()), random.Random(5)
    for number in range(60):
        (run / damaged).write_bytes(mutated(whole, chance))
        error = show(run, "--format", ("text", "markdown", "csv")[number % 3]).exception
        assert error is None or (isinstance(error, UsageError) and "\n" not in str(error)), error


@pytest.mark.parametrize("findings", [5, ["text"], {"a": 1}, [None]])
@pytest.mark.parametrize("output_format", ["text", "markdown", "html"])
@pytest.mark.usefixtures("undrawn")
def test_findings_that_are_none_cost_the_diagnosis_and_not_the_run(
    findings: Any, output_format: str, run: Path
) -> None:
    content = json.loads((run / "diagnosis.json").read_text()) | {"findings": findings}
    (run / "diagnosis.json").write_text(json.dumps(content))
    shown = show(run, "--format", output_format)
    assert (shown.exit_code, shown.exception) == (0, None)
    assert "shown without the diagnosis of its logs" in shown.stderr
    assert raybench.load(run).run_id in shown.stdout


def test_a_diagnosis_beside_another_result_is_not_taken_for_its_own(run: Path) -> None:
    (run / "result.json").rename(run / "before.json")
    finding = json.loads((run / "diagnosis.json").read_text())["findings"][0]["summary"]
    assert finding not in show(run / "before.json", "--format", "markdown").stdout
    (run / "before.json").rename(run / "result.json")
    assert finding in show(run / "result.json", "--format", "markdown").stdout.replace("\\", "")
