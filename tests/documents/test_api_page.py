"""Every example of docs/api.md runs as it stands, on the result of an earlier run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents.mutation import REPORTS, SAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_the_examples_run_in_order(sample: Path, tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    folder = tmp_path / "runs" / "20261121-120000-ab12"
    folder.mkdir(parents=True)
    shutil.copy(sample, folder / "result.json")
    for report in REPORTS:
        shutil.copy(report, tmp_path / f"{report.stem.partition('-')[0]}.json")
    study = tmp_path / "studies" / "network-20261121-014502-3f9a"
    study.mkdir(parents=True)
    shutil.copy(next(one for one in REPORTS if one.stem.startswith("study-network")), study / "study.json")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "VERDICT: OK" in done.stdout
