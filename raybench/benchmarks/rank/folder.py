"""Where a rank writes files: those that stay beside its logs, and those that it only reads again.

The run names a folder of its own in RAYBENCH_RANK_FOLDER, which goes with the run however its ranks end.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER_VARIABLE = "RAYBENCH_RANK_FOLDER"
PASSING = "passing-"  # what the name of a folder begins with that a rank removes itself, unless it is killed


def rank_folder() -> Path:
    """Where a file stays: the run's folder; without a run, as under torchrun, the working directory."""
    return Path(os.environ.get(FOLDER_VARIABLE, "."))


@contextmanager
def passing_folder() -> Iterator[Path]:
    """A folder for the length of the block, in the run's own; else in the temporary folder. Raises OSError."""
    of_run = os.environ.get(FOLDER_VARIABLE)
    parent = of_run if of_run and Path(of_run).is_dir() else None
    with tempfile.TemporaryDirectory(prefix=PASSING, dir=parent) as folder:
        yield Path(folder)
