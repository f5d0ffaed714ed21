"""Every example of docs/api.md runs as it stands, on the result of an earlier run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import raybench
from tests.documents.mutation import SAMPLES

NEEDS_RAY = "<!-- run: needs Ray -->"
PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_the_examples_run_in_order(sample: Path, tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").replace(f"{NEEDS_RAY}\n```python", "```")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    folder = tmp_path / "runs" / "20261121-120000-ab12"
    folder.mkdir(parents=True)
    shutil.copy(sample, folder / "result.json")
    (folder / "logs").mkdir()
    (folder / "logs" / "nccl-rank-0.log").write_text("n1:7:7 [0] NCCL INFO Using network Socket\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "VERDICT: OK" in done.stdout
    assert "unknown socket None" in done.stdout


@pytest.mark.cluster
def test_the_example_of_a_run_does_one(tmp_path: Path) -> None:
    (code,) = re.findall(rf"{NEEDS_RAY}\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", f"import raybench\n{code}"], cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("runs/*/result.json")
    assert raybench.load(result).status == "complete"
    assert done.stdout.splitlines()[0].startswith("VERDICT: ")
    assert done.stdout.splitlines()[1].split()[0] == str(result.parent.relative_to(tmp_path))
