"""JSON of NCCL's RAS and of NCCL Inspector, spread over lines or all on one: each object is brought on a line.

``ncclras -f json`` writes a document with an object a rank, its monitor an object an event, and Inspector an object a
collective; tools such as ``jq`` wrap the latter or take the line breaks out of the former. Each object becomes a batch
of its own that begins with the number of its first line, so that it is read as a line is.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain

from diagnostics.inputs.files import Input, open_input
from diagnostics.inputs.reader import Batch, is_of_ras

HEAD_BYTES = 2**13
MAX_OBJECT_BYTES = 2**16
_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[{}]')
_SPREAD = re.compile(rb'(?m)"missing_ranks_count"|^\s*"(?:coll_perf|p2p_perf|event)": |"PEER_DEAD"')
_OF_SPREAD = (b'"missing_ranks_count"', b'"coll_perf"', b'"p2p_perf"', b'"event"', b'"PEER_DEAD"')  # found much faster
_WRAP = re.compile(rb"\s*\n\s*")
_BETWEEN = b" \t\r\n,"
_KEYS = ((b'"nvml_dev"', b'"status"'), (b'"coll_perf"',), (b'"p2p_perf"',), (b'"event"', b'"peer"'))


def is_spread(head: bytes) -> bool:
    """Whether a file that begins so holds objects that are not one a line."""
    return b"{" in head and any(map(head.__contains__, _OF_SPREAD)) and _SPREAD.search(head) is not None


def holds_objects(file: Input) -> bool:
    """Whether a file's head shows such objects. Raises UnreadableInputError; OSError where it cannot be opened."""
    with closing(open_input(file)) as stream:
        return is_spread(stream.read(HEAD_BYTES))


def with_objects_joined(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches of one file; where it holds such objects, a batch for each of them and for what is between."""
    head = list(_head(batches))
    rest = chain(head, batches)
    spread = is_spread(b"\n".join(batch.block for batch in head))
    for batch in rest:
        if spread or batch.torn or is_of_ras(batch.block):  # asked while the log was written
            yield from _joined(chain((batch,), rest), batch)
            return
        yield batch


def _joined(batches: Iterator[Batch], first: Batch) -> Iterator[Batch]:
    joiner = _Joiner(batch=first)
    for joiner.batch in batches:
        yield from joiner.take()
    yield from joiner.finish()


def _head(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The first batches, HEAD_BYTES in all or more: the very first one of a file may be a single line."""
    size = 0
    for batch in batches:
        yield batch
        size += len(batch.block)
        if size >= HEAD_BYTES:
            return


@dataclass(slots=True)
class _Joiner:
    """Takes one ``batch`` of a file after another; what it keeps of them begins ``_line`` lines behind the first.

    ``_next``: the line behind the last batch given. ``_open``: the places of the braces that are open in what is kept.
    """

    batch: Batch
    _line: int = 0
    _next: int = 0
    _given: bool = False
    _kept: bytes = b""
    _seen: int = 0
    _open: list[int] = field(default_factory=list)

    def take(self) -> Iterator[Batch]:
        """What is complete with this batch."""
        if self.batch.note:
            yield replace(self.batch, block=b"", first=False, skipped=0, torn=False)
            self._next += 1
        self._kept += self.batch.block + (b"" if self.batch.torn else b"\n")
        done = 0
        for token in _TOKEN.finditer(self._kept, self._seen):
            if token[0] == b"{":
                self._open.append(token.start())
            elif token[0] == b"}" and self._open:
                start, end = self._open.pop(), token.end()
                if start >= done and _is_wanted(self._kept[start:end]):
                    yield from self._pieces(done, start)
                    yield self._batch(start, end, _WRAP.sub(b" ", self._kept[start:end]))
                    done = end
        self._seen = len(self._kept)
        yield from self._cut(done)

    def finish(self) -> Iterator[Batch]:
        """What is left."""
        yield from self._pieces(0, len(self._kept))

    def _cut(self, done: int) -> Iterator[Batch]:
        """Let go of what no object that is still open can need."""
        bound = self._seen - MAX_OBJECT_BYTES
        keep = min((place for place in self._open if place >= max(done, bound)), default=self._seen)
        yield from self._pieces(done, keep)
        self._line += self._kept.count(b"\n", 0, keep)
        self._kept, self._seen = self._kept[keep:], self._seen - keep
        self._open = [place - keep for place in self._open]  # below 0: what they opened is not an object that is wanted

    def _pieces(self, start: int, end: int) -> Iterator[Batch]:
        """The text between objects, as it stands."""
        text = self._kept[start:end]
        if bare := text.strip(_BETWEEN):
            begin = start + len(text) - len(text.lstrip(_BETWEEN))
            yield self._batch(begin, begin + len(bare), bare)

    def _batch(self, start: int, end: int, text: bytes) -> Batch:
        line = self._line + self._kept.count(b"\n", 0, start)
        skipped, self._next = line - self._next, line + self._kept.count(b"\n", start, end) + 1
        wrapped = self._kept.count(b"\n", start, end) - text.count(b"\n")
        first, self._given = self.batch.first and not self._given, True
        return replace(self.batch, block=text + b"\n" * wrapped, first=first, skipped=skipped, torn=False, note=None)


def _is_wanted(text: bytes) -> bool:
    return len(text) <= MAX_OBJECT_BYTES and any(all(key in text for key in keys) for keys in _KEYS)
