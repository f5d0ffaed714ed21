"""What a job that ran left in its output: which job it was, what raybench concluded, what nccl-tests measured. Pure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from raybench.launchers.slurm.training_output import TrainingLines, TrainingOutput

_MOST_LETTERS = 4000
# slurm-1417.out, slurm-1417_3.out (an array), train.1417.err, nccl-1417-gpu03.log
_IDS = re.compile(r"(?<![0-9A-Za-z])([0-9]{1,10})(?:_([0-9]{1,7}))?(?=[-.][^/]*$)")
_DATE = re.compile(r"20[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
_PREFIX = re.compile(r"^(?:\[[0-9]+,[0-9]+\]<std(?:out|err)>: ?|\s{0,8}[0-9]{1,7}: )")  # of mpirun, of srun --label
_RUN = re.compile(r"^(?:# )?raybench (run|study|train) ([0-9]{8}-[0-9]{6}-[0-9a-f]{4}|\S{1,100}): (.+)")
_VERDICT = re.compile(r"^(?:# )?VERDICT: (OK|WARNING|CRITICAL|INCOMPLETE|UNKNOWN)\b:? ?(.*)")
_TEST = re.compile(r"^# Collective test starting: (\w+?)(?:_perf)?\s*$")
_BOUNDS = re.compile(r"^# Out of bounds values *: *([0-9]+) (OK|FAILED)")
_AVERAGE = re.compile(r"^# Avg bus bandwidth *: *([0-9.]+)")
_WITH_ROOT, _WITHOUT_ROOT = 13, 12  # words of a row, since nccl-tests 2.13 and before


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class JobId:
    """``number`` and, of an array, ``index``; empty where a file's name has neither."""

    number: str = ""
    index: str = ""

    def __str__(self) -> str:
        return f"{self.number}_{self.index}" if self.index else self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTest:
    """One table of nccl-tests. Bandwidths in GB/s; ``largest_*``: of the row of the largest message, out of place.

    ``wrong``: how many values were; None where the output does not come to that line.
    """

    name: str = ""
    average_bus_gb_per_second: float | None = None
    largest_bytes: int | None = None
    largest_bus_gb_per_second: float | None = None
    wrong: int | None = None


@dataclass(slots=True, kw_only=True)
class JobOutput:
    """What was printed. ``verdict`` and ``reason``: the last of raybench's own; ``run`` and ``what``: its run.

    ``training``: what a training of any program printed.
    """

    run: str = ""
    what: str = ""
    verdict: str = ""
    reason: str = ""
    tests: list[NcclTest] = field(default_factory=list)
    training: TrainingOutput | None = None


def job_id_of(path: str) -> JobId:
    """The id in the name of a file: of several numbers the longest that is no date, of these the last."""
    found = [*_IDS.finditer(PurePath(path).name)]
    found = [one for one in found if not _DATE.fullmatch(one[1])] or found
    chosen = max(reversed(found), key=lambda one: len(one[1]), default=None)
    return JobId(number=chosen[1], index=chosen[2] or "") if chosen else JobId()


def output_of(lines: Iterable[str]) -> JobOutput:
    """Read the lines of one job's output."""
    output, table, training = JobOutput(), _Table(), TrainingLines()
    for line in lines:
        text = _PREFIX.sub("", line[:_MOST_LETTERS].rstrip("\r\n"), count=1)
        if (run := _RUN.match(text)) is not None:
            output.run, output.what = run[2], run[3]
        elif (verdict := _VERDICT.match(text)) is not None:
            output.verdict, output.reason = verdict[1].lower(), verdict[2]
        else:
            output.tests.extend(table.take(text))
            training.take(text)
    output.tests.extend(table.rest())
    output.training = training.found()
    return output


class _Table:
    """The table of nccl-tests that is being read."""

    def __init__(self) -> None:
        self._name = ""
        self._largest: tuple[int, float] | None = None
        self._wrong: int | None = None

    def take(self, text: str) -> Iterator[NcclTest]:
        if (name := _TEST.match(text)) is not None:
            yield from self.rest()
            self._name = name[1]
        elif (bounds := _BOUNDS.match(text)) is not None:
            self._wrong = int(bounds[1])
        elif (average := _AVERAGE.match(text)) is not None and self._largest is not None:
            yield self._end(float(average[1]))
        elif (row := _row(text)) is not None and (self._largest is None or row[0] >= self._largest[0]):
            self._largest = row

    def rest(self) -> Iterator[NcclTest]:
        """A table that was cut before its end."""
        if self._largest is not None:
            yield self._end(None)

    def _end(self, average: float | None) -> NcclTest:
        size, bus = self._largest or (None, None)
        test = NcclTest(
            name=self._name,
            average_bus_gb_per_second=average,
            largest_bytes=size,
            largest_bus_gb_per_second=bus,
            wrong=self._wrong,
        )
        self._name, self._largest, self._wrong = "", None, None
        return test


def _row(text: str) -> tuple[int, float] | None:
    """Bytes and bus bandwidth of ``1048576 262144 float sum -1 31.20 33.61 63.02 0 30.9 33.9 63.6 0``."""
    words = text.split()
    if len(words) not in (_WITH_ROOT, _WITHOUT_ROOT) or not words[0].isdecimal() or not words[1].isdecimal():
        return None
    bus = words[7 if len(words) == _WITH_ROOT else 6]
    if words[2].isdecimal() or not re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]+)?", bus):
        return None
    return int(words[0]), float(bus)
