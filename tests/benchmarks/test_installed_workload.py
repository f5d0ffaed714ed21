"""An installed workload is planned, run by ranks, checked, combined, judged and shown; raybench has no line of it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raybench.benchmarks import registry
from raybench.config import load_config
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.figures import Figure, FiguresPoint
from raybench.errors import UsageError
from raybench.reports.workloads.table import workload_sections
from tests.benchmarks.installed_workload import install

ROOT = Path(__file__).parents[2]
SHOWN = {
    "text": "echo of a byte",
    "csv": "echoes=",
    "markdown": "## Echo",
    "html": "echoes (1/s)",
    "json": '"kind": "echoes"',
}
THROUGH = """
import io, json, sys
from pathlib import Path

from raybench.benchmarks.events import BenchmarkFinished, WorkloadMeasured, encode
from raybench.benchmarks.registry import names_of
from raybench.config import load_config
from raybench.documents.run.cluster import ClusterInfo
from raybench.documents.run.result import RunResult
from raybench.execution.collector import Collector
from raybench.execution.event_check import EventError, event_of
from raybench.execution.record import RunRecord
from raybench.reports.formats import FORMATS
from raybench.reports.terminal.report import print_document
from raybench.reports.summary import summary_of
from tests.benchmarks.gloo_ranks import run_ranks

config = load_config(sys.argv[1], {})
plan = config.plan("gloo")
collector = Collector(plan=plan, world_size=2)
for events in run_ranks(2, plan):
    for event in events:
        collector.take(0, event_of(encode(event), (0, 1), plan, 2))
(benchmark,) = collector.results(1, None)
findings = tuple(RunRecord(config=config, run_id="r")._findings_of(benchmark, emulated=True))
result = RunResult(
    run_id="r", status="complete", started_at="2026-11-22T20:00:00+00:00", finished_at="2026-11-22T20:00:01+00:00",
    cluster=ClusterInfo(nodes=(), world_size=2, backend="gloo", emulated=True), versions={}, variables={},
    config=config.to_json(), benchmarks=(benchmark,), findings=findings,
)
loaded = RunResult.of_json(json.loads(json.dumps(result.to_json())), "the result")
screen = io.StringIO()
print_document(loaded, screen, width=100)
lie = WorkloadMeasured(rank=0, benchmark=0, record={"label": "echo of a byte", "seconds": [-1.0]})
try:
    refused = str(event_of(encode(lie), (0, 1), plan, 2))
except EventError as error:
    refused = str(error)
print(json.dumps({
    "parameters": dict(benchmark.parameters), "calls": plan[0].options.calls, "status": benchmark.status,
    "same": json.dumps(loaded.to_json()) == json.dumps(result.to_json()), "verdict": loaded.conclusion.verdict,
    "findings": [one.summary for one in findings], "config": config.to_json()["echoes"],
    "summary": summary_of(loaded)["results"], "refused": refused,
    "shown": {name: one.render(loaded, None) for name, one in FORMATS.items()} | {"text": screen.getvalue()},
}))
"""


def run(site: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip


def test_an_installed_workload_goes_through_all_of_a_run(tmp_path: Path) -> None:
    install(tmp_path)
    file = tmp_path / "run.yml"
    file.write_text("suite: echo\nechoes:\n  calls: 6\n")
    done = run(tmp_path, THROUGH, str(file))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert (seen["parameters"], seen["calls"], seen["config"]) == ({"calls": 6}, 6, {"calls": 6})
    assert (seen["status"], seen["same"], seen["verdict"]) == ("complete", True, "ok")
    assert seen["findings"] == ["rank 0 of None heard its echo"]
    assert seen["summary"]["echoes"]["echo of a byte"]["figures"]["ranks"] == {"value": 2.0, "unit": ""}
    assert "a time that is none" in seen["refused"]
    for name, text in SHOWN.items():
        assert text in seen["shown"][name], name


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of this process's path with the distribution in it, forgotten afterwards."""
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    registry._installed.cache_clear()
    registry.workload_of.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "echoes"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("suite: echos\n", "there is no suite or benchmark 'echos'; did you mean 'echo'"),
        ("suite: echo\nechoes:\n  call: 6\n", "did you mean 'calls'"),
        ("suite: echo\nechoes:\n  calls: many\n", "Expected `int`, got `str` - at `$.echoes.calls`"),
        ("suite: echo\nechos:\n  calls: 6\n", "unknown key 'echos'"),
        ("suite: echo\noptions:\n  echoes: {}\n", "unknown key 'options'"),
        ("suite: echo\ncollective:\n  sizes: 8\n", "unknown key 'collective'"),
    ],
)
def test_its_names_are_listed_and_its_options_checked(file: str, why: str, site: Path) -> None:
    (site / "run.yml").write_text(file)
    with pytest.raises(UsageError, match=re.escape(why)):
        load_config(str(site / "run.yml"), {})


def test_one_that_cannot_be_loaded_is_named_where_it_is_asked_for_and_costs_nothing_elsewhere(site: Path) -> None:
    (site / "echoes/__init__.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(UsageError, match="the workload 'echoes' of the installed package echoes cannot be loaded"):
        registry.names_of("echo")
    assert registry.names_of("ddp") == ("ddp",)


def test_what_is_no_workload_is_refused(site: Path) -> None:
    (site / "echoes/__init__.py").write_text("WORKLOAD = 'echoes'\n")
    with pytest.raises(UsageError, match="of the installed package echoes is no"):
        registry.names_of("echo")


def test_its_result_is_shown_where_it_is_not_installed() -> None:
    with pytest.raises(UsageError, match="there is no suite or benchmark 'echo'"):
        registry.names_of("echo")
    point = FiguresPoint(label="a\x1b[31m", figures=(Figure(name="x", value=None, unit="1/s"),), complete=False)
    one = BenchmarkResult(name="echo", kind="echoes", parameters={}, status="partial", workload=(point,))
    (section,) = workload_sections([one])
    assert [cell.text for cell in section.grid.rows[0]] == ["a\\x1b[31m (partial)", "-", "-", "not checked"]
    assert section.notes == ("a\\x1b[31m: partial: the run ended before this point was through",)
