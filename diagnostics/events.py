"""What one line of a log says, and where it stands."""

import re
from collections.abc import Mapping
from typing import NamedTuple

MAX_QUOTED_CHARACTERS = 400
_OMITTED = re.compile(r"\[repeated (\d{1,6})x across cluster\]")

ProcessKey = tuple[str, int]  # host and pid


class Origin(NamedTuple):
    """Where a line stands and who printed it. A tuple: a big log makes a hundred thousand of them.

    ``host``, ``pid``, ``thread`` and ``device`` come from NCCL's prefix (``node1:812:934 [0] NCCL INFO``); ``rank``
    from a launcher's or PyTorch's. Each is None where the line does not say. ``device`` is the calling thread's
    current CUDA device, not the rank.
    """

    file: str
    line: int
    sequence: int = 0  # position over all files, in the order of reading
    host: str | None = None
    pid: int | None = None
    thread: int | None = None
    device: int | None = None
    rank: int | None = None
    level: str = ""

    @property
    def process(self) -> ProcessKey | None:
        """Host and pid; None where the prefix is missing."""
        return None if self.host is None or self.pid is None else (self.host, self.pid)


class Event(NamedTuple):
    """One message of a known kind. ``fields`` are its named parts, ``text`` the line as quoted in a finding."""

    kind: str
    origin: Origin
    text: str
    fields: Mapping[str, str]

    def number(self, name: str) -> int | None:
        """A field as a whole number; None where it is absent or not a number."""
        value = self.fields.get(name, "")
        return int(value) if value.lstrip("-").isdigit() and len(value) < 19 else None


def times(event: Event) -> int:
    """How often a line was printed: as often more than once as Ray says that it left it out."""
    omitted = _OMITTED.search(event.text) if "x across cluster]" in event.text else None
    return 1 + int(omitted[1]) if omitted else 1


def quote(text: str) -> str:
    """A line as it is shown: one line, printable characters only, cut at MAX_QUOTED_CHARACTERS."""
    clean = text[: 4 * MAX_QUOTED_CHARACTERS]
    if not clean.isprintable():
        clean = "".join(character if character.isprintable() else " " for character in clean)
    clean = clean.strip()
    return clean if len(clean) <= MAX_QUOTED_CHARACTERS else clean[: MAX_QUOTED_CHARACTERS - 1] + "…"
