"""What a job leaves beside its results: how it ended, and which of its nodes never came up."""

import os
from pathlib import Path

import msgspec

from raybench.errors import IncompleteRunError
from raybench.whole_file import write_whole

FILE = "job.json"
SCHEMA = "raybench.launched_job/1"
_LIMIT_BYTES = 8 * 2**20


class JobNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the allocation. ``reason`` says why Ray is not up on it; empty where it is."""

    name: str
    reason: str = ""


class EndedJob(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended. ``reason`` is empty where the command ran to its own end, with ``exit_code`` its exit code."""

    job_id: str
    command: tuple[str, ...]
    exit_code: int
    reason: str = ""
    nodes: tuple[JobNode, ...] = ()
    schema: str = SCHEMA

    def write(self, folder: Path) -> None:
        """Keep it in the job's folder. Raises OSError."""
        write_whole(folder / FILE, msgspec.json.format(msgspec.json.encode(self), indent=2))


def read_ended(folder: Path) -> EndedJob | None:
    """The record in a job's folder; None where there is none (yet). Raises IncompleteRunError for a damaged one."""
    path = folder / FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IncompleteRunError(f"{path}, which says how the job ended, cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_LIMIT_BYTES)
    try:
        return msgspec.json.decode(data, type=EndedJob)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise IncompleteRunError(f"{path}, which says how the job ended, is damaged: {error}") from error
