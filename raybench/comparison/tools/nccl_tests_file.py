"""The result file of nccl-tests (``-J out.json``, 2.17 and newer) as a side. Pure.

``{"version":2,"start_time":"2026-07-01 10:00:00","args":["./all_reduce_perf"],"env":["NCCL_IB_HCA=mlx5_0"],``
``"nccl_version":22807,"config":{...,"devices":[...]},"results":[...]}``, as its ``util.cu`` writes it. With the times
of every iteration (``in_place_per_iter``) those are the samples, else the mean is the only one. Of the environment only
what is NCCL's is taken.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import msgspec

from raybench.comparison.side import FigureKey, Side, SideFigure
from raybench.comparison.tools.ended import is_wrong, outcomes_of
from raybench.comparison.tools.nccl_tests import KIND, PLACES, key_of, launched, machine_of, timed, version_text
from raybench.errors import UsageError

_HEAD = re.compile(r'\s*\{\s*"version":\s*\d{1,9},\s*"start_time":')
_KEYS = ('"version"', '"start_time"', '"nccl_version"', '"results"')
_VARIABLE = re.compile(r"((?:NCCL|RCCL|FI|UCX|CUDA_VISIBLE)_[A-Z0-9_]+)=(.*)", re.DOTALL)
_MOST = 200  # characters of a value


class Half(msgspec.Struct, frozen=True):
    """One of the two places: microseconds, and wrong elements, None where nobody looked."""

    time: float | None = None
    nwrong: float | str | None = None


class Iterations(msgspec.Struct, frozen=True):
    """Microseconds of each iteration."""

    times_us: tuple[float, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """One message size."""

    size: int
    type: str = ""
    redop: str = ""
    out_of_place: Half | None = None
    in_place: Half | None = None
    out_of_place_per_iter: Iterations | None = None
    in_place_per_iter: Iterations | None = None


class Device(msgspec.Struct, frozen=True):
    """Of one rank."""

    hostname: str
    device_info: str


class Settings(msgspec.Struct, frozen=True):
    """What the program was started with, and its ranks."""

    nthreads: int | None = None
    ngpus: int | None = None
    minimum_bytes: int | None = None
    maximum_bytes: int | None = None
    step_factor: int | None = None
    step_bytes: int | None = None
    warmup_iters: int | None = None
    iterations: int | None = None
    aggregated_iterations: int | None = None
    validation: int | None = None
    graph: int | None = None
    devices: tuple[Device, ...] = ()

    def named(self) -> Iterator[tuple[str, str]]:
        """As the line of settings above the table names them."""
        for name, value in (
            ("nThread", self.nthreads),
            ("nGpus", self.ngpus),
            ("minBytes", self.minimum_bytes),
            ("maxBytes", self.maximum_bytes),
            ("step", self.step_bytes if self.step_factor is None else self.step_factor),
            ("warmup iters", self.warmup_iters),
            ("iters", self.iterations),
            ("agg iters", self.aggregated_iterations),
            ("validation", self.validation),
            ("graph", self.graph),
        ):
            if value is not None:
                yield name, str(value)


class Judgement(msgspec.Struct, frozen=True):
    """Of all rows; ``okay``: "true", "false" or "unchecked"."""

    okay: str | bool = ""

    @property
    def is_bad(self) -> bool:
        """Whether the program said so."""
        return self.okay in ("false", False)


class TestsFile(msgspec.Struct, frozen=True):
    """The document."""

    results: tuple[Row, ...]
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: Settings = Settings()
    nccl_version: int = 0
    start_time: str = ""
    end_time: str = ""
    out_of_bounds: Judgement | None = None
    average_bus_bandwidth: Judgement | None = None
    errors: tuple[object, ...] = ()

    @property
    def status(self) -> str:
        """How it ended: a run that failed before its end wrote the time of it, and no judgement of its rows."""
        judged = [one for one in (self.out_of_bounds, self.average_bus_bandwidth) if one]
        if any(self.errors) or any(one.is_bad for one in judged) or (self.end_time and self.out_of_bounds is None):
            return "failed"
        return "unknown" if self.out_of_bounds is None else "complete"


def is_tests_file(text: str) -> bool:
    """Whether a text begins as such a file does, or has its keys in another order."""
    return _HEAD.match(text) is not None or (text.lstrip()[:1] == "{" and all(key in text for key in _KEYS))


def tests_file_side(name: str, text: str) -> Side:
    """The side of a file. Raises UsageError for one that is cut, as of a run that failed, or of another form."""
    try:
        found = msgspec.convert(json.loads(text), TestsFile)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        why = "it breaks off, so the run did not come to its end" if isinstance(error, json.JSONDecodeError) else error
        raise UsageError(f"{name} is a result file of nccl-tests that cannot be read: {why}") from error
    figures = [*_figures(found)]
    return Side(
        name=name,
        kind=KIND,
        run_ids=(name,),
        started_at=found.start_time,
        machine=machine_of([(one.hostname, one.device_info) for one in found.config.devices]),
        configuration=dict(found.config.named()),
        environment=dict(_environment(found)),
        outcomes=outcomes_of(found.status, (wrong for *_, wrong in figures)),
        figures=launched((key, figure) for key, figure, _ in figures),
    )


def _environment(found: TestsFile) -> Iterator[tuple[str, str]]:
    if found.nccl_version > 0:
        yield "nccl", version_text(found.nccl_version)
    for one in found.env:
        if variable := _VARIABLE.fullmatch(one):
            name, value = variable.groups()
            yield name, value[:_MOST]


def _figures(found: TestsFile) -> Iterator[tuple[FigureKey, SideFigure, bool | None]]:
    """Each with whether its data was wrong; None where nobody looked."""
    program = PurePath(found.args[0]).name.removesuffix("_perf") if found.args else "nccl-tests"
    for row in found.results:
        halves = (row.out_of_place, row.out_of_place_per_iter), (row.in_place, row.in_place_per_iter)
        for place, (half, iterations) in zip(PLACES, halves, strict=True):
            if half is None or half.time is None:
                continue
            samples: Sequence[float] = iterations.times_us if iterations else ()
            wrong = is_wrong(half.nwrong)
            figure = timed(row.size, [one / 1e6 for one in samples or (half.time,)], is_wrong=bool(wrong))
            if figure is not None:
                yield key_of(program, row.type, row.redop, place, row.size), figure, wrong
