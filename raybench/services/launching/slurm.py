"""``raybench launch slurm``: submit, follow until the job has ended, bring its results home."""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from raybench.errors import IncompleteRunError, UsageError
from raybench.launchers.command_words import check_words
from raybench.launchers.ended_job import EndedJob, read_ended
from raybench.launchers.slurm.job_state import SlurmJob, job_of
from raybench.launchers.slurm.script import SlurmRequest, job_folder, job_script
from raybench.processes.interrupt import Interrupt

__all__ = ["Launched", "SlurmRequest", "brought_back", "check_words", "follow", "planned", "submit"]

_ASK_SECONDS = 30.0
_FIRST_POLL_SECONDS, _POLL_SECONDS = 1.0, 5.0
_QUICK_SECONDS = 60.0  # for so long a job is asked about often
_SILENT_SECONDS = 300.0  # slurmctld may be restarted meanwhile
_CANCEL_SECONDS = 90.0
_SEEN_SECONDS = 20.0  # until a file of a node is seen here: file servers let clients keep old listings


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What became of a job. ``ended`` is None where it left no record; ``folder`` is where its results are here."""

    job_id: str
    job: SlurmJob | None
    ended: EndedJob | None
    folder: Path
    results: tuple[Path, ...]
    reason: str

    @property
    def exit_code(self) -> int:
        """That of the command; 3 where the job did not come to its end."""
        return 3 if self.ended is None else self.ended.exit_code


def planned(request: SlurmRequest, words: Sequence[str]) -> str:
    """All that would be done, for reading: the command, the script, what follows. Raises UsageError."""
    check_words(words)
    script = job_script(request, words)
    folder = job_folder(request.folder, "JOB")
    return (
        f"# {request.folder} must be seen by this machine and by the nodes, at this path\n"
        f"# sbatch --parsable, with this script on its standard input:\n{script}"
        "# in the job: one 'srun --nodes=1 --overlap' a node holds Ray, its token goes through srun's pipe;\n"
        f"# 'raybench {' '.join(words)}' runs beside the first; then Ray ends on every node\n"
        f"# results: {folder}/RUN_ID, how the job ended: {folder}/job.json\n"
    )


def submit(request: SlurmRequest, words: Sequence[str]) -> str:
    """Hand the job to Slurm. Returns its id. Raises UsageError where Slurm does not take it."""
    check_words(words)
    script = job_script(request, words)
    _check_programs()
    try:
        request.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {request.folder} cannot be made: {error.strerror}; choose another") from error
    done = _called(["sbatch", "--parsable"], text_in=script)
    job_id = done.stdout.strip().partition(";")[0]
    if done.returncode or not job_id.isdigit():
        said = " ".join((done.stderr or done.stdout).split())[:1000]
        raise UsageError(f"Slurm does not take the job: {said or f'sbatch ended with {done.returncode}'}")
    return job_id


def follow(
    request: SlurmRequest, job_id: str, *, interrupt: Interrupt, say: Callable[[str], None], output_dir: Path
) -> Launched:
    """Wait until the job has ended, saying what changes, and bring its results to ``output_dir``.

    The first Ctrl-C has the job end in order: what was measured is kept. The second cancels it.
    """
    job = _Follower(job_id, interrupt, say).wait()
    return brought_back(request.folder, job_id, job, output_dir)


def brought_back(shared: Path, job_id: str, job: SlurmJob | None, output_dir: Path) -> Launched:
    """What a job left in the shared folder, copied to ``output_dir`` where that is another folder."""
    folder = job_folder(shared, job_id)
    ended = _await_record(folder) if job is None or not job.waits else None
    if ended is not None and output_dir.absolute() != shared.absolute():
        target = job_folder(output_dir, job_id)
        shutil.copytree(folder, target, symlinks=True, dirs_exist_ok=True)
        folder = target
    results = tuple(sorted(path.parent for name in ("result", "study") for path in folder.glob(f"*/{name}.json")))
    return Launched(
        job_id=job_id, job=job, ended=ended, folder=folder, results=results, reason=_reason(job, ended, shared, job_id)
    )


def _await_record(folder: Path) -> EndedJob | None:
    deadline = time.monotonic() + _SEEN_SECONDS
    while (ended := read_ended(folder)) is None and time.monotonic() < deadline:
        time.sleep(0.5)
    return ended


def _reason(job: SlurmJob | None, ended: EndedJob | None, shared: Path, job_id: str) -> str:
    """Why there is no whole result; empty where the command ran to its own end."""
    if ended is not None:
        return ended.reason
    state = job.in_brief() if job else "unknown to Slurm"
    output = shared / f"slurm-{job_id}.out"
    said = _tail(output)
    hint = f"; {output} ends: {said}" if said else f"; {output} has nothing: does this machine see what nodes write?"
    return f"job {job_id} left no result: it is {state}{hint}"


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 1500))
            return " ".join(file.read().decode("utf-8", "replace").split())
    except OSError:
        return ""


class _Follower:
    """Asks Slurm about one job until it has ended."""

    def __init__(self, job_id: str, interrupt: Interrupt, say: Callable[[str], None]) -> None:
        self._job_id, self._interrupt, self._say = job_id, interrupt, say
        self._said = ""
        self._asked_to_end = 0
        self._deadline: float | None = None

    def wait(self) -> SlurmJob | None:
        """The job once it has ended; None where Slurm knows it no longer. Raises IncompleteRunError."""
        begun = heard = time.monotonic()
        while True:
            job, known = self._ask()
            heard = time.monotonic() if known else heard
            if known and (job is None or job.ended):
                self._tell(job)
                return job
            self._tell(job)
            if time.monotonic() - heard > _SILENT_SECONDS:
                raise IncompleteRunError(
                    f"Slurm has not answered for {_SILENT_SECONDS:.0f} s; job {self._job_id} may go on: look with "
                    f"'squeue -j {self._job_id}', its results will be in the folder of the job"
                )
            self._end_if_asked(job)
            quick = time.monotonic() - begun < _QUICK_SECONDS or self._asked_to_end
            time_to_wait = _FIRST_POLL_SECONDS if quick else _POLL_SECONDS
            if self._asked_to_end:
                time.sleep(time_to_wait)
            else:
                self._interrupt.event.wait(time_to_wait)

    def _ask(self) -> tuple[SlurmJob | None, bool]:
        """The job, and whether Slurm answered: a job that it does not know has gone long ago."""
        try:
            done = _called(["scontrol", "-o", "show", "job", self._job_id])
        except IncompleteRunError:
            return None, False
        if done.returncode == 0:
            return job_of(done.stdout), True
        return None, "Invalid job id" in done.stderr

    def _tell(self, job: SlurmJob | None) -> None:
        text = job.in_brief() if job else ""
        if text and text != self._said:
            self._said = text
            self._say(f"job {self._job_id} is {text}")

    def _end_if_asked(self, job: SlurmJob | None) -> None:
        """Tell the job to end where this command was: its batch program first, all of it when that takes too long."""
        received = self._interrupt.received
        late = self._deadline is not None and time.monotonic() > self._deadline
        if received <= self._asked_to_end and not late:
            return
        first = self._asked_to_end == 0
        self._asked_to_end = received
        self._deadline = time.monotonic() + _CANCEL_SECONDS
        if first and job is not None and not job.waits:
            self._say(f"job {self._job_id} is told to end, and keeps what it has measured; once more cancels it")
            _called(["scancel", "--batch", "--signal=TERM", self._job_id])
        else:
            self._say(f"job {self._job_id} is cancelled")
            _called(["scancel", self._job_id])


def _check_programs() -> None:
    missing = [name for name in ("sbatch", "scontrol", "scancel") if shutil.which(name) is None]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} not found: start this on a machine that submits to Slurm, such as its login node; "
            "--dry-run shows the script without"
        )


def _called(words: Sequence[str], text_in: str | None = None) -> subprocess.CompletedProcess[str]:
    """One of Slurm's programs, within its time. Raises IncompleteRunError where it hangs or is gone."""
    try:
        return subprocess.run(words, input=text_in, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise IncompleteRunError(f"'{' '.join(words)}' did not answer: {error}") from error
