"""How much TCP the machine sends: looked at each second, so that its connections are asked for only while they tell."""

import os
from pathlib import Path
from typing import NamedTuple

from diagnostics.agent.sources.base import SourceUnavailableError
from diagnostics.agent.sources.host import tcp_counters
from diagnostics.limits import LOOPBACK

_LONGEST_FILE = 1 << 16


class TcpSegments(NamedTuple):
    """Of the machine, since it came up."""

    sent: int
    sent_again: int


class TcpCounters:
    """``net/snmp`` and ``net/dev`` below ``/proc``, which stay open. ``at_first`` is what was sent until then.

    Raises SourceUnavailableError where the first cannot be read.
    """

    def __init__(self, proc: Path) -> None:
        self._snmp, self._dev = _opened(proc / "net/snmp"), _opened(proc / "net/dev")
        self._where = proc
        try:
            self.at_first = self.segments()
        except SourceUnavailableError:
            self.close()
            raise

    def segments(self) -> TcpSegments:
        """What was sent. Raises SourceUnavailableError where it cannot be read, or has another form."""
        try:
            tcp = tcp_counters(_text(self._snmp))
            return TcpSegments(sent=int(tcp["OutSegs"]), sent_again=int(tcp["RetransSegs"]))
        except (OSError, ValueError, KeyError) as error:
            raise SourceUnavailableError(f"{self._where}/net/snmp: {error}") from error

    def sent_to_others(self) -> int | None:
        """Bytes that all interfaces but the loopback have sent; None where ``net/dev`` does not say.

        ``  eth0: 1296 16 0 0 0 0 0 0 1296 16 ...``: eight figures of what was received, then what was sent.
        """
        try:
            lines = (line.partition(":") for line in _text(self._dev).splitlines()[2:])
            return sum(int(rest.split(maxsplit=9)[8]) for name, _, rest in lines if rest and name.strip() != LOOPBACK)
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Close the files."""
        for number in filter(None, (self._snmp, self._dev)):
            os.close(number)
        self._snmp = self._dev = None


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _text(number: int | None) -> str:
    if number is None:
        raise OSError("it cannot be opened")
    return os.pread(number, _LONGEST_FILE, 0).decode("ascii", "replace")
