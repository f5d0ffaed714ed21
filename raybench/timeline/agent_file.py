"""The file that ``raybench agent -o`` writes, as a document: what it sampled, and what it warned of."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from diagnostics.agent.message_reader import MessageReader
from diagnostics.agent.messages import SCHEMA, Clock, Message, Warned
from diagnostics.findings import Finding
from raybench.documents.reading import DocumentError
from raybench.documents.run.node_samples import NodeClock, NodeSamples
from raybench.timeline.clock import ClockEstimate
from raybench.timeline.keeper import MOST_NODE_BYTES, MOST_NODE_TEXT, MachineKeeper

ORIGIN = "raybench agent"
MOST_FINDINGS = 300
_PIECE_BYTES = 2**20
_SET_SECONDS = 60.0
_MOST_BYTES = 2**30


def is_agent_file(head: bytes) -> bool:
    """Whether a file that begins so was written by an agent."""
    return f'"{SCHEMA}"'.encode() in head or head.startswith(b'{"kind":')


def agent_samples(path: Path) -> NodeSamples:
    """The samples in a file and in the older half beside it, since the machine last started; times from the first on.

    Raises DocumentError where nothing in it is a message of an agent.
    """
    reader, kept = MessageReader(), _Kept()
    try:
        for message in _messages(path, reader):
            kept.take(message)
        omitted = kept.dropped(reader, _beyond(path))
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror}") from error
    if kept.clock is None:
        raise DocumentError(f"{path} is not a file of raybench agent, or holds no clock: no time of it is known")
    return kept.samples(kept.clock, omitted)


def _same_start(first: Clock, later: Clock) -> bool:
    """Whether the machine has not started again in between: each half of a file begins with a clock of the half before.

    What the clock on the wall showed when the monotonic one began is then the same, but for how it was set.
    """
    began = [one.wall_seconds - one.monotonic_seconds for one in (first, later)]
    return abs(began[0] - began[1]) < _SET_SECONDS


def _halves(path: Path) -> tuple[Path, ...]:
    older = path.with_name(f"{path.name}.1")
    return (older, path) if older.is_file() else (path,)


def _beyond(path: Path) -> int:
    """Bytes that were not read."""
    return sum(max(file.stat().st_size - _MOST_BYTES, 0) for file in _halves(path))


def _messages(path: Path, reader: MessageReader) -> Iterator[Message]:
    for file in _halves(path):
        left = _MOST_BYTES
        with file.open("rb") as stream:
            while left > 0 and (piece := stream.read(_PIECE_BYTES)):
                left -= len(piece)
                yield from reader.feed(piece)
        yield from reader.feed(b"\n")  # the last line may have been cut


class _Kept:
    """What was read of one start of the machine: its monotonic clock begins again with each."""

    def __init__(self) -> None:
        self.clock: Clock | None = None  # the first
        self._latest = float("-inf")
        self._findings: list[Finding] = []
        self._dropped: Counter[str] = Counter()
        self._messages = 0
        self._keeper = MachineKeeper(name="", nodes=(), clock=ClockEstimate(start_seconds=0.0))

    def take(self, message: Message) -> None:
        if isinstance(message, Clock):
            self._begin(message)
        if self.clock is None:
            self._dropped["messages before the first clock"] += 1  # of a time that is not known
            return
        self._messages += 1
        self._latest = max(self._latest, message.monotonic_seconds)
        if isinstance(message, Warned):
            if len(self._findings) < MOST_FINDINGS:
                self._findings.append(message.finding)
            else:
                self._dropped["warnings"] += 1
        self._keeper.take(message, MOST_NODE_BYTES)

    def _begin(self, clock: Clock) -> None:
        if self.clock is not None and (clock.monotonic_seconds >= self._latest or _same_start(self.clock, clock)):
            return
        self._dropped["messages from before the machine started again"] += self._messages
        self.clock, self._latest, self._findings, self._messages = clock, clock.monotonic_seconds, [], 0
        self._keeper = MachineKeeper(name=clock.host, nodes=(clock.host,), clock=ClockEstimate(start_seconds=0.0))

    def dropped(self, reader: MessageReader, beyond: int) -> dict[str, int]:
        """What was in the file and is not in the samples, by reason."""
        refused = sum(reader.refused.values())
        return {**self._dropped, "lines that are not a message": refused, "bytes beyond 1 GiB": beyond}

    def samples(self, clock: Clock, omitted: Mapping[str, int]) -> NodeSamples:
        node = self._keeper.sampled(MOST_NODE_TEXT)
        own = NodeClock(offset_seconds=-clock.monotonic_seconds, bound_seconds=0.0, basis="its own")
        left_out = {**node.left_out, **omitted}
        started = datetime.fromtimestamp(clock.wall_seconds, UTC).isoformat(timespec="seconds")
        return NodeSamples(
            run_id="",
            started_at=started,
            origin=ORIGIN,
            nodes=(replace(node, clock=own, left_out={name: count for name, count in left_out.items() if count}),),
            findings=tuple(self._findings),
        )
