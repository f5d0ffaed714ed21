"""Measure, place and check multi-node GPU clusters: the Python API (docs/api.md). The commands are ``raybench.cli``."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

__version__ = "0.1.0"


def load(path: "str | os.PathLike[str]") -> Any:
    """The document in a file or in the folder of a run, whichever command of whichever raybench wrote it.

    A RunResult, EstimateReport, ... of ``raybench.documents``, as its schema says (docs/api.md). Raises
    raybench.errors.UsageError, with one line on what is wrong and where, for a file that cannot be read, is damaged,
    or was written by a newer raybench.
    """
    from pathlib import Path  # nothing is loaded before it is asked for

    from raybench.documents.loading import load_document

    return load_document(Path(path))
