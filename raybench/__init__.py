"""Measure, place and check multi-node GPU clusters: the Python API (docs/api.md). The commands are ``raybench.cli``."""

from raybench.version import __version__ as __version__

TYPE_CHECKING = False  # of typing, whose import takes longer than the first Ctrl-C
if TYPE_CHECKING:
    import os
    from typing import Any

    from matplotlib.figure import Figure

    from raybench.config import RunConfig
    from raybench.documents.diagnosis import Diagnosis
    from raybench.services.run import FinishedRun

__all__ = ["diagnose", "figures", "html", "load", "run"]


# Each imports what it needs when it is called: nothing is loaded before it is asked for.


def load(path: "str | os.PathLike[str]") -> "Any":
    """The document in a file or in the folder of a run, whichever command of whichever raybench wrote it.

    A RunResult, EstimateReport, ... of ``raybench.documents``, as its schema says (docs/api.md). Raises
    raybench.errors.UsageError, with one line on what is wrong and where, for a file that cannot be read, is damaged,
    or was written by a newer raybench.
    """
    from pathlib import Path

    from raybench.documents.loading import load_document

    return load_document(Path(path))


def run(config: "RunConfig | None" = None, /, **options: "Any") -> "FinishedRun":
    """Do a run as ``raybench run`` does, and return what it measured and where it is kept.

    ``options`` are those of the configuration file (``nodes=2, suite="all_reduce", sizes="1K:64M:4"``); they may follow
    a configuration, whose values they replace. Ctrl-C ends the run in order, and what was measured is returned.
    Raises raybench.errors.UsageError for a run that cannot be begun.
    """
    from raybench.services.run import run_here

    return run_here(config, options)


def diagnose(*paths: "str | os.PathLike[str]") -> "Diagnosis":
    """What NCCL's logs show: files, folders or globs, each job judged by itself.

    Raises raybench.errors.UsageError where nothing of it can be read.
    """
    import os

    from raybench.services.diagnose import diagnose as diagnose_logs

    return diagnose_logs([os.fspath(path) for path in paths]).diagnosis


def figures(document: "Any") -> "dict[str, Figure]":
    """The figures that a document's report draws, by name, as matplotlib's own; empty where it draws none.

    Raises raybench.errors.MissingLibraryError, an ImportError, without matplotlib.
    """
    from raybench.reports.notebook import figures_of

    return figures_of(document)


def html(document: "Any", diagnosis: "Diagnosis | None" = None) -> str:
    """The report of a document as one HTML page without scripts; ``diagnosis`` is that of a run's logs.

    Raises raybench.errors.MissingLibraryError, an ImportError, without jinja2.
    """
    from raybench.reports.html import render_html

    return render_html(document, diagnosis)
