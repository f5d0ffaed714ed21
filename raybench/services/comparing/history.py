"""All results below a folder as one history: one is read at a time, and only what the history needs of it is kept."""

import os
from collections.abc import Iterator
from pathlib import Path

from raybench.documents.comparison.history import History, HistoryRun, OmittedRun
from raybench.documents.loading import load_document
from raybench.errors import UsageError
from raybench.services.comparing.sides import BEGUN, side_of_document

MOST_RUNS = 10_000
_RESULTS = ("result.json", "study.json", "fabric.json", "preflight.json")  # of a folder's the first


def history_of(folder: Path) -> History:
    """The history of every run, study, fabric test and preflight below ``folder``; what cannot be read is omitted.

    Raises UsageError where the folder cannot be read, or has no run.
    """
    from raybench.comparison.past import Past

    past = Past()
    for number, file in enumerate(_results(folder)):
        if number >= MOST_RUNS:
            raise UsageError(f"{folder} has more than {MOST_RUNS} runs; name a part of it")
        path = str(file.parent.relative_to(folder))
        if file.name == BEGUN:
            past.omitted.append(
                OmittedRun(path=path, reason="it has no result: it still runs, or did not end in order")
            )
            continue
        try:
            side = side_of_document(path, load_document(file))
        except UsageError as error:
            past.omitted.append(OmittedRun(path=path, reason=str(error)))
            continue
        past.take(HistoryRun(path=path, run_id=side.run_ids[0], started_at=side.started_at, verdict=side.verdict), side)
    if not past.runs:
        why = f": {past.omitted[0].reason}" if past.omitted else "; name the folder that 'raybench run' wrote to"
        raise UsageError(f"{folder} has no run that can be read{why}")
    return past.history(str(folder))


def _results(folder: Path) -> Iterator[Path]:
    """Every result below the folder, which is not looked for below one; of a run that has none, what it wrote first.

    Links to folders are not followed.

    Raises UsageError.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; name the one that 'raybench run' wrote its runs to, such as runs")

    def refused(error: OSError) -> None:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error

    for here, below, files in os.walk(folder, onerror=refused):
        below.sort()
        name = next((one for one in (*_RESULTS, BEGUN) if one in files or one in below), None)
        if name is not None:
            below.clear()
            yield Path(here) / name
