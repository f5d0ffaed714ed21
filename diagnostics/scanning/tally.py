"""Lines that are only counted: most lines of a big log repeat each other and are read in full only once.

Channel lines (four of five in a large job's log) are counted by their text behind the channel number, so that only a
new pair of ranks, direction or transport is read; the table is bounded, and beyond it only the transport itself is
counted. From DETAIL_LINES on, a message that was read before is only counted, whoever prints it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from diagnostics.events import Event
from diagnostics.scanning.gate import Gate
from diagnostics.scanning.literals import INIT_MARK
from diagnostics.scanning.repetition import MAX_CHANNEL_KEYS, behind_mark, communicator_id

MAX_INIT_LINES = 12_000  # later ones count only for communicators that were seen before
MAX_KNOWN_INIT_LINES = 24_000  # starts and completions of 12,000 ranks; behind them none is looked at
MAX_TEXTS = 30_000
_NEVER_REPEATED = frozenset(  # each names its rank, or is counted as a channel
    {"init-start", "init-complete", "comm-nodes", "destroy", "abort", "channel"}
)


@dataclass(slots=True)
class Tally:
    """What was read, and how often it came again. ``channel_event`` holds the first line of each channel text."""

    gate: Gate
    channel_event: dict[bytes, Event] = field(default_factory=dict)
    starts_omitted: bool = False  # Init lines came that were not looked at
    room: int = MAX_TEXTS
    _texts: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    _init_lines: int = 0
    _communicators: set[bytes] = field(default_factory=set)

    @property
    def channels(self) -> dict[bytes, int]:
        """How often what each channel is counted under came."""
        return self.gate.channels

    def counts(self, raw: bytes) -> bool:
        """Whether a line is done with by counting it, or left out."""
        if raw.find(b" via ") >= 0:
            return self.gate.counts_channel(raw)
        if raw.find(INIT_MARK) >= 0:
            return self._leaves_out(raw)
        if self.gate.skips_init and b" nNodes " in raw:  # a scan does not look for it either, in pieces sooner or later
            self.starts_omitted = True
            return True
        return self.repeats(raw)

    def repeats(self, raw: bytes) -> bool:
        """Whether the detail is used up and the message was read before, whoever printed it; then it is counted."""
        if self.gate.detailed or (text := behind_mark(raw)) not in self.gate.known:
            return False
        self.gate.known[text] += 1
        return True

    def _leaves_out(self, raw: bytes) -> bool:
        """Whether a start or completion is one too many; every rank of every communicator prints two."""
        self._init_lines += 1
        late = self._init_lines > MAX_INIT_LINES
        self.gate.skips_init = self._init_lines > MAX_KNOWN_INIT_LINES
        name = None if self.gate.skips_init else communicator_id(raw)
        if late and (name is None or name not in self._communicators):
            self.starts_omitted = True
            return True
        if name is not None:
            self._communicators.add(name)
        return False

    def remember(self, raw: bytes, kinds: Sequence[str]) -> None:
        """Remember what a line says, and of which kinds it is."""
        if len(self._texts) < self.room and not _NEVER_REPEATED.intersection(kinds):
            text = behind_mark(raw)
            self._texts[text] = tuple(kinds)
            self.gate.known.setdefault(text, 0)

    def count_channel(self, event: Event, text: str) -> None:
        """Remember what a channel line says, so that its repetitions are only counted."""
        via, channels = text.find(" via "), self.channels
        key = text[max(text.find(": ", max(via - 40, 0)), 0) :].encode()
        if len(channels) >= MAX_CHANNEL_KEYS:
            key = key[key.find(b" via ") :]
        channels[key] = channels.get(key, 0) + 1
        self.channel_event.setdefault(key, event)

    def add(self, known: Mapping[bytes, int], channels: Mapping[bytes, int]) -> None:
        """Take what other processes counted."""
        for text, count in known.items():
            self.gate.known[text] = self.gate.known.get(text, 0) + count
        for key, count in channels.items():
            kept = key if key in self.channels else key[key.find(b" via ") :]
            self.channels[kept] = self.channels.get(kept, 0) + count

    def repeated(self) -> dict[str, int]:
        """Events by kind that were only counted."""
        totals: dict[str, int] = defaultdict(int)
        for text, count in self.gate.known.items():
            for kind in self._texts.get(text, ()) if count else ():
                totals[kind] += count
        return totals
