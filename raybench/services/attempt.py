"""What explains a result may fail: it is said, and the result with its exit code stands."""

from collections.abc import Callable
from typing import TypeVar

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
