"""All runs below a folder as one history: one is read at a time, and only what the history needs of it is kept."""

import os
from collections.abc import Iterator
from pathlib import Path

from raybench.documents.comparison.history import History, HistoryRun, OmittedRun
from raybench.documents.reading import DocumentError
from raybench.documents.run.result import RunResult
from raybench.errors import UsageError

MOST_RUNS = 10_000
_RESULT = "result.json"


def history_of(folder: Path) -> History:
    """The history of every run below ``folder``. A run that cannot be read is named and omitted.

    Raises UsageError where the folder cannot be read, or has no run.
    """
    from raybench.comparison.past import Past
    from raybench.comparison.run_side import run_side

    past = Past()
    for number, file in enumerate(_results(folder)):
        if number >= MOST_RUNS:
            raise UsageError(f"{folder} has more than {MOST_RUNS} runs; name a part of it")
        path = str(file.parent.relative_to(folder))
        try:
            result = RunResult.read(file, "the result")
        except DocumentError as error:
            past.omitted.append(OmittedRun(path=path, reason=str(error)))
            continue
        verdict = result.conclusion.verdict
        run = HistoryRun(path=path, run_id=result.run_id, started_at=result.started_at, verdict=verdict)
        past.take(run, run_side(path, [result]))
    if not past.runs:
        why = f": {past.omitted[0].reason}" if past.omitted else "; name the folder that 'raybench run' wrote to"
        raise UsageError(f"{folder} has no run that can be read{why}")
    return past.history(str(folder))


def _results(folder: Path) -> Iterator[Path]:
    """Every ``result.json`` below the folder, which is not looked for below a run. Links to folders are not followed.

    Raises UsageError.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name the one that 'raybench run' wrote its runs to, such as runs")

    def refused(error: OSError) -> None:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error

    for here, below, files in os.walk(folder, onerror=refused):
        below.sort()
        if _RESULT in files:
            below.clear()
            yield Path(here) / _RESULT
