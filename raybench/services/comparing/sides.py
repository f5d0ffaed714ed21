"""What is named on the command line as one side of a comparison: a document, or a folder of several runs."""

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raybench.comparison.side import Side
from raybench.comparison.tools.beside import is_ours
from raybench.comparison.words import FAILED, INCOMPLETE
from raybench.documents.comparison.baseline import RunsBaseline
from raybench.documents.fabric import FabricReport
from raybench.documents.loading import FILES, KINDS, load_document
from raybench.documents.preflight import PreflightReport
from raybench.documents.run.result import RunResult
from raybench.documents.run.standalone import StandaloneResult
from raybench.documents.study.result import StudyResult
from raybench.errors import UsageError
from raybench.services.comparing.omitted import Omitted, failed_output, omitted_in

MOST_RUNS = 1000
MOST_BYTES = 2**28
MOST_BYTES_TOGETHER = 2**30
_RESULT = "result.json"
BEGUN = "samples.jsonl"  # what a run writes first
_COMPARED = (
    "compared are documents of raybench (run, train, memory, checkpoint, study, fabric, preflight, baseline, "
    "torchrun), what nccl-tests printed or wrote as JSON, and files of NCCL Inspector"
)
_OPENED_BY_SHELL = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # as ``<(zcat old.log.gz)`` does


def side_of(path: Path) -> Side:
    """The side of a path. Raises UsageError."""
    from raybench.comparison.joined import joined_side

    if is_folder_of_results(path):
        found = results_below(path)
        if not found:
            return _of_inspector(path)
        side = joined_side(str(path), [one_side(one) for one in found])
        begun = unfinished_below(path)
        other = [one for one in sorted(path.iterdir()) if one.is_dir() and _is_document(one) and one not in found]
        named = ", ".join(one.name for one in other)
        left = [f"{path} is compared without {named}, which hold no runs"] if other else []
        rest = omitted_from(path, found, [*begun, *other])
        gaps = (*(f"{one.name} has no result" for one in begun), *rest.lost)
        return replace(side, gaps=(*side.gaps, *gaps), remarks=(*side.remarks, *left, *rest.remarks(path)))
    return one_side(path)


def one_side(path: Path) -> Side:
    """The side of one result: a document's, or that of what another tool printed. Raises UsageError."""
    if not path.is_dir() and (side := _of_tool(path)) is not None:
        return side
    return side_of_document(str(path), _document(path))


def results_below(path: Path) -> Sequence[Path]:
    """The results in a folder that is none itself, by name: folders of runs, or else of others; or else files.

    Of files those that are none, such as notes, are left out. Raises UsageError.
    """
    try:
        children = sorted(path.iterdir())
        found = [
            one for one in children if os.path.lexists(one / _RESULT)
        ]  # a link to nothing is a result that is lost
        found = found or [one for one in children if one.is_dir() and _is_document(one)]
        if not found:
            files = _together([one for one in children if one.is_file()])
            found = [one for one in files if _is_result(one)]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(found) > MOST_RUNS:
        raise UsageError(f"{path} has {len(found)} results; at most {MOST_RUNS} are read together")
    return found


def unfinished_below(path: Path) -> Sequence[Path]:
    """Folders of runs that began, and have no result: they still run, or did not come to their end."""
    children = sorted(one for one in path.iterdir() if one.is_dir())
    return [one for one in children if (one / BEGUN).is_file() and not os.path.lexists(one / _RESULT)]


def omitted_from(path: Path, found: Sequence[Path], told: Sequence[Path] = ()) -> Omitted:
    """What else is in a folder of which those results were taken; ``told`` is said elsewhere. Raises UsageError."""
    return omitted_in(path, found, _lost_below, told)


def _lost_below(folder: Path) -> str:
    """The first failed result in a folder below, or output of a program that failed; "" where there is none."""
    if folder.name.startswith("."):
        return ""
    try:
        found = results_below(folder)
    except UsageError:
        return ""  # of more than can be read, as data is: it is named among what was omitted
    for one in found:
        try:
            side = one_side(one)
        except UsageError as error:
            return str(error)
        for about, word in (*side.outcomes.items(), *side.troubles.items()):
            if word in (*FAILED, *INCOMPLETE):
                return f"{one.relative_to(folder.parent)}, in a folder below, has {about} {word}"
    said = failed_output(folder, found)
    return f"{folder.name}/{said}" if said else ""


def is_folder_of_results(path: Path) -> bool:
    """Whether a path is a folder, and not that of one result."""
    return path.is_dir() and not _is_document(path)


def _is_document(folder: Path) -> bool:
    return any((folder / name).exists() for name in (*FILES, "plan.json"))


def _is_result(file: Path) -> bool:
    """Whether a file is a document of ours, or output of nccl-tests; whether it is damaged is seen later."""
    from raybench.comparison.tools.nccl_tests import is_nccl_tests
    from raybench.comparison.tools.nccl_tests_file import is_tests_file

    text = _text(file)
    return is_ours(text) or is_tests_file(text) or is_nccl_tests(text)


def _of_tool(path: Path) -> Side | None:
    """The side of what nccl-tests printed, or wrote as JSON, or NCCL Inspector wrote; None for a document of ours.

    Raises UsageError for a file that cannot be read, or is none of all these.
    """
    from raybench.comparison.tools.inspector import inspector_events, inspector_side
    from raybench.comparison.tools.nccl_tests import is_nccl_tests, nccl_tests_side
    from raybench.comparison.tools.nccl_tests_file import is_tests_file, tests_file_side

    text = _text(path)
    if is_ours(text):
        return None
    if is_tests_file(text):
        return tests_file_side(str(path), text)
    if is_nccl_tests(text):
        return nccl_tests_side(str(path), text)
    if '"coll_perf"' in text and next(inspector_events(text), None):
        return inspector_side(str(path), [text])
    if text.lstrip()[:1] == "{":
        return None  # its schema may stand elsewhere, or be missing: the loader says so
    raise UsageError(f"{path} is empty" if not text.strip() else f"{path} is not a known result; {_COMPARED}")


def _of_inspector(folder: Path) -> Side:
    """The side of all files of a job's processes. Raises UsageError where the folder has none."""
    from raybench.comparison.tools.inspector import inspector_events, inspector_side

    files = _together(sorted(one for one in folder.iterdir() if one.is_file()))
    texts = {file: text for file, text in zip(files, map(_text, files), strict=True) if '"coll_perf"' in text}
    if not any(next(inspector_events(text), None) for text in texts.values()):
        raise UsageError(f"{folder} has no result; {_COMPARED}")
    side, rest = inspector_side(str(folder), [*texts.values()]), omitted_from(folder, [*texts])
    return replace(side, gaps=rest.lost, remarks=(*side.remarks, *rest.remarks(folder)))


def _together(files: Sequence[Path]) -> Sequence[Path]:
    """Files that are read whole, one after the other. Raises UsageError for more than can be."""
    size = sum(file.stat().st_size for file in files)
    if len(files) > MOST_RUNS or size > MOST_BYTES_TOGETHER:
        limits = f"{MOST_RUNS} files, or {MOST_BYTES_TOGETHER >> 20} MiB"
        found = f"{len(files)} files of {size >> 20} MiB"
        raise UsageError(f"{files[0].parent} has {found}; at most {limits} are read together")
    return files


def _text(path: Path) -> str:
    try:
        if stat.S_ISFIFO(path.stat().st_mode) and not str(path).startswith(_OPENED_BY_SHELL):
            raise UsageError(f"{path} is a pipe, which may never end: write what comes out of it to a file first")
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
    title = next(kind.title for kind in KINDS.values() if kind.name == type(document).__name__)
    raise UsageError(f"{name} is {title}, which has no figures to compare; {_COMPARED}")


def _document(path: Path) -> Any:
    found = load_document(path)
    return kept(path) if isinstance(found, RunResult) else found


def kept(path: Path) -> RunResult:
    """A run as it was kept, with the findings of its logs. Raises UsageError."""
    from raybench.services.show import kept_run

    return kept_run(path).result
