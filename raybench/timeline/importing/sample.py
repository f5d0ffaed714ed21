"""What every format gives: values of series at times, each of a host, and what it needs to be told for that."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo

from raybench.errors import UsageError


class ImportedFileError(UsageError):
    """A file is not what it should be, or does not say what has to be known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One value. ``host``: as the file calls it; empty where it names none. ``at``: seconds since 1970, UTC."""

    host: str
    at: float
    series: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the user says of a file that the file does not. None: nothing was said, and nothing is taken for granted.

    ``zone``: of its times. ``begin`` and ``interval_seconds``: when its first reading was, and what lies between two,
    where it has no times. ``day``: that of the run's start, for times without a date.
    """

    zone: tzinfo | None
    begin: datetime | None
    interval_seconds: float | None
    day: datetime

    def moment(self, time: datetime, where: str) -> float:
        """A time of a file, which has no zone. Raises ImportedFileError where none was given."""
        if self.zone is None:
            raise ImportedFileError(
                f"{where} has local times without a zone: give --timezone, that of the node (UTC, Europe/Berlin)"
            )
        return time.replace(tzinfo=self.zone).timestamp()

    def reading(self, number: int, where: str) -> float:
        """The time of a reading of a file without times. Raises ImportedFileError where none was given."""
        if self.begin is None or self.interval_seconds is None:
            raise ImportedFileError(
                f"{where} has no times: give --begin, that of its first reading, and --interval, seconds between two"
            )
        return self.begin.timestamp() + number * self.interval_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The samples of a file; ``omitted``: what it has beside them, and is no series that raybench knows."""

    samples: tuple[Sample, ...]
    omitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format. ``is_it(text)``: by its first lines; ``parse(text, told, where)`` raises ImportedFileError."""

    title: str
    is_it: Callable[[str], bool]
    parse: Callable[[str, Told, str], Parsed]


def number_of(text: str) -> float | None:
    """A value, exact where it is whole; None where there is none (``-``, ``N/A``, NaN, DCGM's blank values)."""
    try:
        value: float = int(text)
    except ValueError:
        try:
            value = float(text)
        except ValueError:
            return None
    return value if abs(value) < _BLANK else None


_BLANK = 9.2e18  # DCGM_INT64_BLANK and its kin begin at 0x7ffffffffffffff0; NaN is not below it
