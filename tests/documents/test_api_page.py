"""Every example of docs/api.md runs, on what earlier commands wrote; the functions shown are those of the package."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import raybench
from tests.documents.mutation import REPORTS, SAMPLES

NEEDS_RAY = "<!-- run: needs Ray -->"
PAGE = Path(__file__).parents[2] / "docs" / "api.md"
FUNCTIONS = {"diagnose", "figures", "html", "load", "run"}


def test_the_functions_of_the_package_are_those_that_the_page_shows() -> None:
    functions = {name for name, value in vars(raybench).items() if inspect.isfunction(value)}
    examples = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    assert functions == set(raybench.__all__) == FUNCTIONS
    assert set(re.findall(r"\braybench\.(\w+)\(", examples)) == FUNCTIONS


DAILY = "collective"  # results of the other kinds go through the same lines


@pytest.mark.parametrize(
    "sample",
    [pytest.param(one, id=one.stem, marks=() if one.stem.startswith(DAILY) else pytest.mark.long) for one in SAMPLES],
)
def test_the_examples_run_in_order(sample: Path, tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").replace(f"{NEEDS_RAY}\n```python", "```")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    folder = tmp_path / "runs" / "20261121-120000-ab12"
    folder.mkdir(parents=True)
    shutil.copy(sample, folder / "result.json")
    (folder / "logs").mkdir()
    (folder / "logs" / "nccl-rank-0.log").write_text("n1:7:7 [0] NCCL INFO Using network Socket\n")
    for report in REPORTS:
        shutil.copy(report, tmp_path / f"{report.stem.rpartition('-')[0]}.json")
    study = tmp_path / "studies" / "network-20261121-014502-3f9a"
    study.mkdir(parents=True)
    shutil.copy(next(one for one in REPORTS if one.stem.startswith("study-network")), study / "study.json")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "VERDICT: OK" in done.stdout
    assert "unknown socket None" in done.stdout


@pytest.mark.cluster
def test_the_example_of_a_run_does_one(tmp_path: Path) -> None:
    (code,) = re.findall(rf"{NEEDS_RAY}\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code.count("nodes=2") == 1
    alone = code.replace("nodes=2", "nodes=1")  # two nodes cost more, and are those of tests/cli/test_embedded_run.py
    undrawn = f"import raybench, sys\nsys.modules['matplotlib'] = None\n{alone}"
    done = subprocess.run([sys.executable, "-c", undrawn], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("runs/*/result.json")
    assert raybench.load(result).status == "complete"
    assert done.stdout.splitlines()[0].startswith("VERDICT: ")
    assert done.stdout.splitlines()[1].split()[0] == str(result.parent.relative_to(tmp_path))
