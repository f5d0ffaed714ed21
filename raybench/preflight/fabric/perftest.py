r"""What ib_write_bw and ib_write_lat print, as figures. Versions 1 to 25 of linux-rdma/perftest.

A bandwidth table of 6.x (ConnectX-6, ``--report_gbits``), and one of latency::

     #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
     65536      5000             197.33             197.31             0.376342
     #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
     2       1000          1.24           5.19         1.27              1.27            0.00

Columns are found by their headings, since versions and options add some (``CPU_Util[%]``, ``#sl``, ``BW min``, ports)
and ``-D`` takes some away, as did the first versions (no message rate, no average latency). Lines that are no row may
stand between heading and row ("Conflicting CPU frequency values detected").
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from raybench.preflight.fabric.errors import NoFigureError

_MIB = 2**20
_HEADING = re.compile(
    r"#\w+|(?:BW |MsgRate ?|99(?:\.9)?% )?[A-Za-z_0-9.]*(?: Port\d)?\[[^\]\s]+\]|tps average", re.ASCII
)
_COUNTED = {"#bytes", "#iterations"}  # in every table; without them its heading is damaged
_LEAST_RATE = 2e-5  # MsgRate is printed with six decimals: below, it is too coarse to check a figure against
_UNIT_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """One row of a bandwidth table. ``gbit_per_s`` is 10^9 bits, whatever was printed; ``notes`` say what is odd."""

    message_bytes: int
    iterations: int
    gbit_per_s: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One row of a latency table, one way, in microseconds. ``-D`` gives the average alone.

    Of the first versions, which print no average, it is the typical one.
    """

    message_bytes: int
    iterations: int
    average_us: float
    typical_us: float | None = None
    least_us: float | None = None
    most_us: float | None = None
    percentile_99_us: float | None = None


def parse_bandwidth(text: str) -> tuple[Bandwidth, ...]:
    """The rows of every bandwidth table in the output, in order. Raises NoFigureError when there is none."""
    rows = tuple(_bandwidth(row) for row in _rows(text, "BW average"))
    if not rows:
        raise NoFigureError(f"no bandwidth was printed: {last_words(text)}")
    return rows


def parse_latency(text: str) -> tuple[Latency, ...]:
    """The rows of every latency table in the output, in order. Raises NoFigureError when there is none."""
    rows = tuple(_latency(row) for row in _rows(text, "t_avg", "t_typical"))
    if not rows:
        raise NoFigureError(f"no latency was printed: {last_words(text)}")
    return rows


def last_words(text: str) -> str:
    """The last line that says something, for messages; ``it printed nothing`` where there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t-*")]
    return lines[-1][:200] if lines else "it printed nothing"


def _rows(text: str, *wanted: str) -> Iterator[dict[str, float]]:
    """Rows by heading, of tables that have a column that begins with one of ``wanted``; that has to be a figure."""
    headings: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#bytes"):
            found = _HEADING.findall(line)
            headings = found if set(found) >= _COUNTED else []
            continue
        values = line.split()
        telling = [heading for heading in headings if heading.startswith(wanted)]
        if telling and len(values) >= 3:
            row = _numbers(headings, values)
            printed = [heading for heading in telling if heading in headings[: len(values)]]
            if row is not None and (not printed or any(heading not in row for heading in printed)):
                raise NoFigureError(f"the test printed a figure that cannot be: {' '.join(values)[:200]}")
            if row is not None:
                yield row


def _numbers(headings: Sequence[str], values: Sequence[str]) -> dict[str, float] | None:
    """A row by heading, without what cannot be a figure (``-nan`` of a deviation, -1); None when it is no row."""
    if not values[0].isdecimal() or not values[1].isdecimal() or len(values) > len(headings):
        return None
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return None
    pairs = zip(headings, numbers, strict=False)
    row = {heading: number for heading, number in pairs if math.isfinite(number) and number >= 0}
    return row if set(row) >= _COUNTED else None


def _bandwidth(row: Mapping[str, float]) -> Bandwidth:
    heading = next(name for name in row if name.startswith("BW average"))
    value, message_bytes = row[heading], int(row["#bytes"])
    if value <= 0:
        raise NoFigureError("not measured: the average is 0, no message was completed in the time that counts")
    gbit_per_s = value if "[Gb/sec]" in heading else value * _MIB * 8e-9
    by_rate = row.get("MsgRate[Mpps]", 0.0) * message_bytes * 8e-3
    notes: tuple[str, ...] = ()
    if row.get("MsgRate[Mpps]", 0.0) >= _LEAST_RATE and abs(by_rate / gbit_per_s - 1) > _UNIT_TOLERANCE:
        notes = (f"printed {value:g} {heading[len('BW average') :]} but its message rate gives {by_rate:.2f} Gb/s",)
        gbit_per_s = by_rate
    return Bandwidth(
        message_bytes=message_bytes, iterations=int(row["#iterations"]), gbit_per_s=gbit_per_s, notes=notes
    )


def _latency(row: Mapping[str, float]) -> Latency:
    average = row.get("t_avg[usec]", row.get("t_typical[usec]"))
    if average is None:
        raise NoFigureError("the test printed no latency in microseconds")
    if average <= 0:
        raise NoFigureError("not measured: the latency is 0, no message was timed")
    return Latency(
        message_bytes=int(row["#bytes"]),
        iterations=int(row["#iterations"]),
        average_us=average,
        typical_us=row.get("t_typical[usec]"),
        least_us=row.get("t_min[usec]"),
        most_us=row.get("t_max[usec]"),
        percentile_99_us=row.get("99% percentile[usec]"),
    )
