"""Files of one number each, as sysfs has them: opened once, read by ``pread`` as long as their device is there."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

Parse = Callable[[bytes], float]
Listing = Callable[[], Mapping[str, tuple[Path, Parse]]]

RELIST_SECONDS = 60.0  # after which devices that came are found
RETRY_SECONDS = 10.0  # the same, while one that was there cannot be read
_LONGEST_NUMBER = 64


class CounterFiles:
    """Numbers by the name of their series, out of the files that ``listing`` names.

    A file that cannot be read is missing from the reading. Devices that come are found, and those that came back under
    the same name are opened again.
    """

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._open: dict[str, tuple[int, Parse]] = {}
        self._failed = False
        self._list()

    def __len__(self) -> int:
        return len(self._open)

    def read(self) -> dict[str, float]:
        """The numbers as they stand."""
        since = time.monotonic() - self._listed
        if since >= RELIST_SECONDS or (self._failed and since >= RETRY_SECONDS):
            self._list()
        values = {}
        for name, (number, parse) in list(self._open.items()):
            try:
                values[name] = parse(os.pread(number, _LONGEST_NUMBER, 0))
            except ValueError:
                continue  # "N/A": may be a number again
            except OSError:
                os.close(number)
                del self._open[name]
                self._failed = True
        return values

    def close(self) -> None:
        """Close all files."""
        for number, _ in self._open.values():
            os.close(number)
        self._open.clear()

    def _list(self) -> None:
        self._listed, self._failed = time.monotonic(), False
        wanted = self._listing()
        for name in self._open.keys() - wanted.keys():
            os.close(self._open.pop(name)[0])
        for name, (path, parse) in wanted.items():
            if name in self._open:
                continue
            try:
                number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                parse(os.pread(number, _LONGEST_NUMBER, 0))
            except (OSError, ValueError):
                os.close(number)  # a counter that the driver names and does not have
            else:
                self._open[name] = number, parse
