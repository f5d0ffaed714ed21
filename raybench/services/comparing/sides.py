"""What is named on the command line as one side of a comparison: a document, or a folder of several runs."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raybench.comparison.side import Side
from raybench.documents.comparison.baseline import RunsBaseline
from raybench.documents.fabric import FabricReport
from raybench.documents.preflight import PreflightReport
from raybench.documents.run.result import RunResult
from raybench.documents.run.standalone import StandaloneResult
from raybench.documents.study.result import StudyResult
from raybench.errors import UsageError

MOST_RUNS = 1000
MOST_BYTES = 2**28
_OURS = re.compile(r'\s*\{\s*"schema"')  # documents are read by their own loader


def side_of(path: Path) -> Side:
    """The side of a path. Raises UsageError."""
    from raybench.comparison.run_side import run_side

    runs = runs_below(path)
    if runs:
        return run_side(str(path), [kept(run) for run in runs])
    return side_of_tool(path) or side_of_document(str(path), _document(path))


def side_of_tool(path: Path) -> Side | None:
    """The side of what nccl-tests printed or NCCL Inspector wrote (a file, or the folder of all its processes).

    None where it is neither. Raises UsageError for a file that cannot be read.
    """
    from raybench.comparison.inspector import inspector_events, inspector_side
    from raybench.comparison.nccl_tests import is_nccl_tests, nccl_tests_side

    texts = _texts(path)
    if len(texts) == 1 and not path.is_dir() and is_nccl_tests(texts[0]):
        return nccl_tests_side(str(path), texts[0])
    if any('"coll_perf"' in text and next(inspector_events(text), None) for text in texts):
        return inspector_side(str(path), texts)
    return None


def _texts(path: Path) -> Sequence[str]:
    """What a file holds that is no document of ours, or those of a folder. Raises UsageError."""
    from raybench.documents.loading import FILES

    if path.is_dir() and any((path / name).exists() for name in (*FILES, "plan.json")):
        return ()
    files = sorted(one for one in path.iterdir() if one.is_file())[:MOST_RUNS] if path.is_dir() else [path]
    return [text for text in map(_text, files) if _OURS.match(text) is None]


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB; compare a part of it")
    return content.decode("utf-8", "replace")


def side_of_document(name: str, document: Any) -> Side:
    """The side of one document. Raises UsageError for a kind that has no figures to compare."""
    from raybench.comparison.baseline_side import baseline_side
    from raybench.comparison.report_sides import fabric_side, preflight_side, study_side
    from raybench.comparison.run_side import run_side, standalone_side

    if isinstance(document, RunResult):
        return run_side(name, [document])
    if isinstance(document, RunsBaseline):
        return baseline_side(name, document)
    if isinstance(document, StandaloneResult):
        return standalone_side(name, document)
    if isinstance(document, StudyResult):
        return study_side(name, document)
    if isinstance(document, FabricReport):
        return fabric_side(name, document)
    if isinstance(document, PreflightReport):
        return preflight_side(name, document)
    raise UsageError(f"{name} is a {type(document).__name__}, which has no figures to compare")


def _document(path: Path) -> Any:
    from raybench.documents.loading import load_document

    found = load_document(path)
    return kept(path) if isinstance(found, RunResult) else found


def kept(path: Path) -> RunResult:
    """A run as it was kept, with the findings of its logs. Raises UsageError."""
    from raybench.services.show import kept_run

    return kept_run(path).result


def runs_below(path: Path) -> Sequence[Path]:
    """The folders of runs in a folder that is none itself, by name; empty for anything else. Raises UsageError."""
    from raybench.documents.loading import FILES

    if not path.is_dir() or any((path / name).exists() for name in (*FILES, "plan.json")):
        return ()
    try:
        found = sorted(one.parent for one in path.glob("*/result.json"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(found) > MOST_RUNS:
        raise UsageError(f"{path} has {len(found)} runs; at most {MOST_RUNS} are read together")
    return found
