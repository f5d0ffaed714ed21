"""The kernel's log from now on: the lines that are about GPUs, NICs, memory, hardware errors and NFS."""

import errno
import os
import re
from pathlib import Path

from diagnostics.agent.sources.base import DeviceEvent, Sample, SourceUnavailableError

MAX_EVENTS = 20  # of one reading; a flood is cut, which the last one says, but for the first of each kind of line
_MAX_RECORDS = 1000
_LONGEST_RECORD = 8192
_MAX_TEXT_CHARACTERS = 400
_WANTED = re.compile(
    r"NVRM|nvidia-nvswitch|mlx5_core|bnxt_en|Out of memory: Kill|out of memory: Kill|EDAC|mce: |\[Hardware Error\]|"
    r"Memory failure|PCIe Bus Error|nfs: server|[Ll]ink (?:is )?[Dd]own"
)
_NUMBER = re.compile(r"(?:0x)?[0-9a-f]*[0-9][0-9a-f]*")
_DEVICE = re.compile(r"(?:mlx5_core|bnxt_en) ([0-9a-f:.]{7,16})|Xid \(([^)]{1,64})\)")


class KernelLog:
    """``/dev/kmsg``, or whatever gives the same records (Documentation/ABI/testing/dev-kmsg)."""

    def __init__(self, path: Path) -> None:
        try:
            self._number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            advice = "; root may read it" if error.errno in {errno.EPERM, errno.EACCES} else ""
            raise SourceUnavailableError(f"{path}: {error.strerror}{advice}") from error
        try:
            os.lseek(self._number, 0, os.SEEK_END)
        except OSError as error:
            if error.errno != errno.ESPIPE:
                os.close(self._number)
                raise SourceUnavailableError(f"{path}: {error.strerror}") from error

    def read(self) -> Sample:
        """The lines since the last reading that matter."""
        wanted = [text for text in self._texts() if _WANTED.search(text)]
        events = [DeviceEvent(device=_device(text), text=text[:_MAX_TEXT_CHARACTERS]) for text in _told(wanted)]
        if len(wanted) > MAX_EVENTS:
            events.append(DeviceEvent(device="", text=f"... and {len(wanted) - MAX_EVENTS} more lines of the kernel"))
        return Sample(events=tuple(events))

    def close(self) -> None:
        """Close the log."""
        os.close(self._number)

    def _texts(self) -> list[str]:
        """The text of each record: ``6,1234,5678901,-;text``, then lines of keys that begin with a space."""
        texts = []
        for _ in range(_MAX_RECORDS):
            try:
                record = os.read(self._number, _LONGEST_RECORD)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # what was next was overwritten; the one after it comes
                    continue
                raise SourceUnavailableError(f"it cannot be read any more: {error.strerror}") from error
            if not record:
                break
            lines = record.decode("utf-8", "replace").split("\n")
            texts += [line.partition(";")[2] for line in lines if line and not line.startswith(" ")]
        return texts


def _told(texts: list[str]) -> list[str]:
    """So many of them, in their order: what a flood of one line's kind leaves room for is told before it."""
    if len(texts) <= MAX_EVENTS:
        return texts
    kinds: dict[str, int] = {}
    for place, text in enumerate(texts):
        kinds.setdefault(_NUMBER.sub("#", text[:_MAX_TEXT_CHARACTERS]), place)
    first = list(kinds.values())
    others = sorted(set(range(len(texts))).difference(first))
    return [texts[place] for place in sorted((first + others)[:MAX_EVENTS])]


def _device(text: str) -> str:
    found = _DEVICE.search(text)
    return next(filter(None, found.groups()), "") if found else ""
