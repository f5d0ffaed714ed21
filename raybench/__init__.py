"""Measure, place and check multi-node GPU clusters: the Python API (docs/api.md). The commands are ``raybench.cli``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from raybench.documents.result import RunResult

__version__ = "0.1.0"


def load(path: "str | os.PathLike[str]") -> "RunResult":
    """What a run measured, from its folder or its ``result.json``, whichever raybench wrote it.

    Raises raybench.errors.UsageError, with one line on what is wrong and where, for a file that cannot be read, is
    damaged, or was written by a newer raybench.
    """
    from pathlib import Path  # nothing is loaded before it is asked for

    from raybench.documents.result import RunResult, result_file

    return RunResult.read(result_file(Path(path)), "the result")
