"""A module of this folder run where a GPU is pretended: what it counts there."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def counted_by(module: str, folder: Path) -> Any:
    """The JSON that a module of this folder writes last; the test is skipped where no GPU can be pretended."""
    pytest.importorskip("torch")
    from tests.performance_model.absent_gpu import build

    try:
        library = build(folder)
    except RuntimeError as error:
        pytest.skip(f"a GPU that is not there cannot be made here: {error}")
    done = subprocess.run(
        [sys.executable, "-m", f"tests.performance_model.memory.{module}"], capture_output=True, text=True,
        timeout=600, check=False, cwd=ROOT, env={**os.environ, "LD_PRELOAD": str(library)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
