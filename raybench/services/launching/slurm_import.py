"""``raybench slurm import``: what outputs of jobs that ran prove, job by job."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from raybench.documents.diagnosis import Diagnosis
from raybench.errors import UsageError
from raybench.launchers.ended_job import EndedJob, read_ended
from raybench.launchers.slurm.job_output import JobId, JobOutput, job_id_of, output_of
from raybench.launchers.slurm.script import job_folder
from raybench.launchers.slurm.training_output import Speedup, speedups

Verdict = Literal["ok", "warning", "critical", "incomplete", "unknown"]
_ORDER: tuple[Verdict, ...] = ("critical", "warning", "incomplete", "unknown", "ok")
_MOST_FILES = 10_000
_BLOCK_LETTERS = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedJob:
    """One job. ``verdict`` is the worst of what its output, its tests and raybench's own conclusion prove.

    ``results``: folders with the results of raybench beside the output, where the job wrote any.
    """

    job: JobId
    files: tuple[Path, ...]
    verdict: Verdict
    reason: str
    output: JobOutput
    diagnosis: Diagnosis
    ended: EndedJob | None = None
    results: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For a program; the diagnosis is as ``raybench diagnose --format json`` gives it."""
        return {
            "job_id": str(self.job),
            "files": [str(path) for path in self.files],
            "verdict": self.verdict,
            "reason": self.reason,
            "run": self.output.run or None,
            "nccl_tests": [asdict(test) for test in self.output.tests],
            "training": asdict(self.output.training) if self.output.training else None,
            "results": [str(path) for path in self.results],
            "diagnosis": self.diagnosis.to_json(),
        }


def import_outputs(patterns: Sequence[str]) -> list[ImportedJob]:
    """The jobs of these files, globs or folders, by their ids. Raises UsageError where no file can be read."""
    by_job: dict[JobId, list[Path]] = {}
    for path in _files(patterns):
        number = job_id_of(path.name)
        by_job.setdefault(number if number.number else JobId(number=path.name), []).append(path)
    return [_job(job, tuple(paths)) for job, paths in sorted(by_job.items(), key=lambda one: _natural(one[0]))]


def exit_code_of(jobs: Sequence[ImportedJob]) -> int:
    """1 where a job shows a problem, 3 where one does not tell or was cut, else 0."""
    verdicts = {job.verdict for job in jobs}
    return 1 if verdicts & {"critical", "warning"} else 3 if verdicts & {"incomplete", "unknown"} else 0


def speedups_of(jobs: Sequence[ImportedJob]) -> Sequence[Speedup]:
    """What more ranks brought, of the jobs that trained and say on how many ranks."""
    return speedups((str(job.job), job.output.training) for job in jobs)


def _files(patterns: Sequence[str]) -> list[Path]:
    found: dict[Path, None] = {}
    for pattern in patterns:
        names = [pattern] if os.path.lexists(pattern) else sorted(glob.glob(pattern))
        if not names:
            raise UsageError(f"there is no file {pattern}; name outputs of jobs, such as 'slurm-*.out'")
        for name in names:
            path = Path(name)
            own = sorted(path.glob("slurm-*.out")) if path.is_dir() else [path]
            found.update(dict.fromkeys(one for one in own if one.is_file()))
    if not found:
        raise UsageError(f"no output of a job is in {', '.join(patterns)}; they are files such as slurm-1417.out")
    if len(found) > _MOST_FILES:
        raise UsageError(f"these are {len(found)} files; give {_MOST_FILES} at most in one call")
    return list(found)


def _job(job: JobId, paths: tuple[Path, ...]) -> ImportedJob:
    from raybench.services.diagnose import diagnose

    diagnosis = diagnose(paths).diagnosis
    output = output_of(line for path in paths for line in _lines(path))
    folder = job_folder(paths[0].parent, job.number)
    ended = read_ended(folder) if folder.is_dir() else None
    results = tuple(sorted(path.parent for name in ("result", "study") for path in folder.glob(f"*/{name}.json")))
    verdict, reason = _concluded(diagnosis, output, ended)
    return ImportedJob(
        job=job,
        files=paths,
        verdict=verdict,
        reason=reason,
        output=output,
        diagnosis=diagnosis,
        ended=ended,
        results=results,
    )


def _concluded(diagnosis: Diagnosis, output: JobOutput, ended: EndedJob | None) -> tuple[Verdict, str]:
    """The gravest; a diagnosis that does not tell gives way to what raybench or a whole table of nccl-tests says."""
    said = [*_of_raybench(output, ended), *_of_tests(output), *_of_training(output)]
    told = diagnosis.verdict != "unknown" and not diagnosis.empty
    if told:
        first = next((one.summary for one in diagnosis.findings if one.severity != "info"), diagnosis.explanation)
        said.append((diagnosis.verdict, first))
    if not said and output.training is not None:
        return "unknown", f"{output.training.text}; no line says that it came to its end"
    if not said:
        return "unknown", "nothing of raybench, NCCL, PyTorch or nccl-tests is in it" if diagnosis.empty else (
            diagnosis.explanation
        )
    return min(said, key=lambda one: _ORDER.index(one[0]))


def _of_raybench(output: JobOutput, ended: EndedJob | None) -> Iterator[tuple[Verdict, str]]:
    named: dict[str, Verdict] = {one: one for one in _ORDER}
    if output.verdict in named:
        yield named[output.verdict], output.reason or output.what
    elif output.run:
        yield "incomplete", f"the output of run {output.run} ends before its verdict"
    if ended is not None and ended.reason:
        yield "incomplete", ended.reason


def _of_tests(output: JobOutput) -> Iterator[tuple[Verdict, str]]:
    for test in output.tests:
        name = test.name or "nccl-tests"
        if test.wrong:
            yield "critical", f"{name}: {test.wrong} values are wrong"
        elif test.average_bus_gb_per_second is None:
            yield "incomplete", f"{name}: the table ends before its last line"


def _of_training(output: JobOutput) -> Iterator[tuple[Verdict, str]]:
    """A program that prints how long its training took has come to the end of it."""
    if output.training is not None and output.training.seconds is not None:
        yield "ok", output.training.text


def _lines(path: Path) -> Iterator[str]:
    """Lines of a file, those that have no end cut into pieces."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            while line := file.readline(_BLOCK_LETTERS):
                yield line
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _natural(job: JobId) -> tuple[int, str, int]:
    number = int(job.number) if job.number.isdecimal() else -1
    return number, job.number, int(job.index or -1)
