"""The files of a run's folder beside its samples: the result, and what is made of it and of the ranks' logs."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.run.node_samples import FILE
from raybench.documents.run.result import RunResult
from raybench.errors import MissingLibraryError
from raybench.run_folder import RunFolder

Made = TypeVar("Made")


def attempt(folder: RunFolder, what: str, make: Callable[[], Made]) -> Made | None:
    """What ``make`` returns; None, and a word on it among the folder's problems or notes, where it fails."""
    try:
        return make()
    except MissingLibraryError as error:
        folder.notes.append(str(error))
    except OSError as error:
        folder.problems.append(f"{what} could not be written ({error.strerror or error})")
    except Exception as error:  # noqa: BLE001 - the result is kept by now; nothing that explains it may cost its exit code
        folder.problems.append(f"{what} could not be made ({type(error).__name__}: {error}); what was measured is kept")
    return None


def write_result(result: RunResult, folder: RunFolder) -> bool:
    """Write result.json. Returns whether it could be; where not, that is among the folder's problems."""
    try:
        folder.write_json("result.json", result.to_json())
    except OSError as error:
        folder.problems.append(f"{folder.path} could not be written ({error.strerror}): the result is printed here")
        return False
    return True


def write_samples(result: RunResult, folder: RunFolder) -> None:
    """Write node_samples.json, where anything was sampled."""
    if result.node_samples is not None:
        folder.write_json(FILE, result.node_samples.to_json())


def write_diagnosis(folder: RunFolder) -> Diagnosis | None:
    """Diagnose the ranks' logs and write diagnosis.json. Returns it; None where there are no logs."""
    from diagnostics.engine import diagnose_paths

    if not any((folder.path / "logs").iterdir()):
        return None
    diagnosis = diagnose_paths([folder.path / "logs"])
    attempt(folder, "diagnosis.json", lambda: folder.write_json("diagnosis.json", diagnosis.to_json()))
    return diagnosis


def write_csv(result: RunResult, folder: RunFolder) -> None:
    """Write result.csv."""
    from raybench.reports.csv import write_csv as write

    folder.release()
    write(result, folder.path / "result.csv")


def write_html(result: RunResult, diagnosis: Diagnosis | None, folder: RunFolder) -> Path:
    """Write report.html. Returns its path."""
    from raybench.reports.html import write_html as write

    write(result, folder.path / "report.html", diagnosis)
    return folder.path / "report.html"


def write_summary(result: RunResult, folder: RunFolder) -> None:
    """Write summary.json."""
    from raybench.reports.summary import summary_of

    folder.write_json("summary.json", summary_of(result))
