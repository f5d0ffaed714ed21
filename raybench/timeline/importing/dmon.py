"""``nvidia-smi dmon`` and ``dcgmi dmon``: a line a GPU and moment below the names of its columns.

    #Date       Time        gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk
    #YYYYMMDD   HH:MM:SS    Idx     W     C     C     %     %     %     %   MHz   MHz
     20261123   02:00:12      0   682    61    70    99    63     0     0  2619  1965

    #Entity   GPUTL             POWER             TMPTR        FBUSD
    ID                          W                 C
    GPU 0     75                185.300           68           28456

Times of the first (-o DT, -o T) are local ones without a zone. The second has none, nor has the first without -o.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta

from raybench.timeline.importing.sample import Format, ImportedFileError, Parsed, Sample, Told, number_of

_MIB = 2**20
_Columns = Mapping[str, tuple[str, int]]  # name of the column -> series of the GPU, factor
NVIDIA_SMI: _Columns = {
    "pwr": ("power_watts", 1),
    "gtemp": ("temperature_celsius", 1),
    "mtemp": ("memory_temperature_celsius", 1),
    "sm": ("utilization_percent", 1),
    "mclk": ("memory_clock_mhz", 1),
    "pclk": ("sm_clock_mhz", 1),
    "fb": ("memory_used_bytes", _MIB),
    "tviol": ("throttle_thermal", 1),
    "sbecc": ("ecc_corrected_errors", 1),
    "dbecc": ("ecc_uncorrected_errors", 1),
    "pci": ("pcie_replays", 1),
}
DCGMI: _Columns = {
    "GPUTL": ("utilization_percent", 1),
    "POWER": ("power_watts", 1),
    "TMPTR": ("temperature_celsius", 1),
    "MMTMP": ("memory_temperature_celsius", 1),
    "FBUSD": ("memory_used_bytes", _MIB),
    "SMCLK": ("sm_clock_mhz", 1),
    "MMCLK": ("memory_clock_mhz", 1),
    "ESVTL": ("ecc_corrected_errors", 1),
    "EDVTL": ("ecc_uncorrected_errors", 1),
}
_NOT_LEFT_OUT = frozenset({"gpu", "date", "time", "entity"})


def _is_nvidia_smi(text: str) -> bool:
    return any("gpu" in line.lower().split()[:4] for line in _headers(text))


def _is_dcgmi(text: str) -> bool:
    return any(line.split()[0].lower() == "entity" for line in _headers(text))


def _headers(text: str) -> list[str]:
    lines = (line.strip() for line in text[:4000].splitlines() if line.strip().startswith("#"))
    return [name for line in lines if (name := line.lstrip("#").strip())]


def _parse_nvidia_smi(text: str, told: Told, where: str) -> Parsed:
    columns: list[str] = []
    samples: list[Sample] = []
    clock = _Clock(told, where)
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.strip().lstrip("#").split()
        if line.strip().startswith("#"):
            names = [name.lower() for name in cells]
            columns = names if "gpu" in names else columns
        elif cells:
            if len(cells) != len(columns):
                raise ImportedFileError(f"{where}:{number} has {len(cells)} columns, and its head {len(columns)}")
            row = dict(zip(columns, cells, strict=True))
            at = clock.at(row.get("date"), row.get("time"), row["gpu"], number)
            samples += _values(row["gpu"], at, row, NVIDIA_SMI)
    return Parsed(samples=tuple(samples), omitted=_others(columns, NVIDIA_SMI))


def _parse_dcgmi(text: str, told: Told, where: str) -> Parsed:
    columns: list[str] = []
    samples: list[Sample] = []
    clock = _Clock(told, where)
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split()
        if line.lstrip().startswith("#"):
            columns = [name for name in line.strip().lstrip("#").split() if name.lower() != "entity"]
        elif cells[:1] == ["GPU"]:
            if len(cells) - 2 != len(columns):
                raise ImportedFileError(f"{where}:{number} has {len(cells) - 2} values, and its head {len(columns)}")
            at = clock.at(None, None, cells[1], number)
            samples += _values(cells[1], at, dict(zip(columns, cells[2:], strict=True)), DCGMI)
        elif cells and cells[0] != "ID":
            raise ImportedFileError(f"{where}:{number} is not a line of dcgmi dmon: {line.strip()[:80]!r}")
    return Parsed(samples=tuple(samples), omitted=_others(columns, DCGMI))


class _Clock:
    """The times of the lines of one file, in their order."""

    def __init__(self, told: Told, where: str) -> None:
        self._told, self._where = told, where
        self._seen: set[str] = set()  # GPUs of the reading that goes on
        self._reading = 0
        self._day, self._last = told.day, datetime.min  # noqa: DTZ901 - it has no zone

    def at(self, date: str | None, clock: str | None, gpu: str, line: int) -> float:
        """Seconds since 1970. Raises ImportedFileError where it cannot be known."""
        if clock is None:
            if gpu in self._seen:
                self._seen = set()
                self._reading += 1
            self._seen.add(gpu)
            return self._told.reading(self._reading, self._where)
        try:
            moment = self._moment(date, clock)
        except ValueError as error:
            raise ImportedFileError(
                f"{self._where}:{line} has no time that can be read: {date or ''} {clock}"
            ) from error
        return self._told.moment(moment, self._where)

    def _moment(self, date: str | None, told: str) -> datetime:
        if date is not None:
            return datetime.strptime(f"{date.replace('/', '')} {told}", "%Y%m%d %H:%M:%S")  # noqa: DTZ007 - it has no zone
        clock = datetime.strptime(told, "%H:%M:%S").time()  # noqa: DTZ007 - it has no zone
        if self._last == datetime.min:  # noqa: DTZ901 - it has no zone
            self._day = self._nearest(clock)
        moment = datetime.combine(self._day.astimezone(self._told.zone).date(), clock)
        if moment < self._last:  # past midnight
            self._day += timedelta(days=1)
            moment += timedelta(days=1)
        self._last = moment
        return moment

    def _nearest(self, clock: time) -> datetime:
        """The day on which that time of day is nearest to the run's start: a file may begin on the evening before."""
        days = [self._told.day + timedelta(days=more) for more in (-1, 0, 1)]
        start = self._told.day.astimezone(self._told.zone).replace(tzinfo=None)
        zone = self._told.zone
        return min(days, key=lambda day: abs(datetime.combine(day.astimezone(zone).date(), clock) - start))


def _values(gpu: str, at: float, row: Mapping[str, str], columns: _Columns) -> Iterator[Sample]:
    if not gpu.isdecimal():
        return
    for name, (series, factor) in columns.items():
        value = number_of(row[name]) if name in row else None
        if value is not None:
            yield Sample(host="", at=at, series=f"gpu/{int(gpu)}/{series}", value=value * factor)


def _others(columns: Sequence[str], known: _Columns) -> tuple[str, ...]:
    return tuple(name for name in columns if name not in known and name.lower() not in _NOT_LEFT_OUT)


DMON = Format(title="nvidia-smi dmon", is_it=_is_nvidia_smi, parse=_parse_nvidia_smi)
DCGMI_DMON = Format(title="dcgmi dmon", is_it=_is_dcgmi, parse=_parse_dcgmi)
