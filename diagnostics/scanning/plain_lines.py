"""Lines of the usual form, ``host:pid:tid [device] NCCL INFO message``, of which each half is read only once.

Every line of a process begins alike, and most processes say the same things. So who speaks is kept by the text before
NCCL's mark, and what is said by the text behind it. Halves that need the whole line to be understood (JSON, colours,
several messages, variables, what Ray left out) are not kept: such lines are read in full.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from diagnostics.parsers import info_patterns
from diagnostics.parsers.base import read_message
from diagnostics.scanning.glued import begins_in_body, begins_in_head
from diagnostics.scanning.prefix import Message, speaker_of
from diagnostics.scanning.repetition import names_its_rank

MARK = b"NCCL INFO "
MAX_HEADS = 20_000
MAX_BODIES = 20_000
MAX_HALF_BYTES = 400  # a longer one is read each time
_PLAIN = bytes([9, *range(32, 127)])
_NOT_IN_A_HEAD = (b"CCL", b"=", b"{")  # another message, a variable, JSON
_ENDS_OF_EMPHASIS = (b"*", b"_", b"`")

Found = Sequence[tuple[str, dict[str, str]]]


@dataclass(slots=True)
class PlainLines:
    """What is known of both halves."""

    _speakers: dict[bytes, Message] = field(default_factory=dict)
    _bodies: dict[bytes, Found] = field(default_factory=dict)

    def read(self, raw: bytes) -> tuple[Message, str, Found, bool] | None:
        """Who speaks, what is said, its kinds and fields, and whether it was said before; None for other lines."""
        mark = raw.find(MARK)
        if mark <= 0 or (speaker := self.speaker(raw[:mark])) is None:
            return None
        body = raw[mark + len(MARK) :].rstrip(b"\r")
        found = self._bodies.get(body)
        if found is not None:
            return speaker, "", found, True
        if len(body) > MAX_HALF_BYTES or not is_plain(body) or b"NCCL " in body or begins_in_body(body):
            return None
        text = body.decode().strip()
        found = read_message(info_patterns(text), text)
        if len(self._bodies) < MAX_BODIES and not (names_its_rank(body) or b"opCount " in body):
            self._bodies[body] = found
        return speaker, text, found, False

    def speaker(self, head: bytes) -> Message | None:
        """Who speaks in lines that begin so; None where more than the head is needed to tell."""
        return self._speakers.get(head) or self._learn(head)

    def _learn(self, head: bytes) -> Message | None:
        if len(head) > MAX_HALF_BYTES or not is_plain(head) or any(literal in head for literal in _NOT_IN_A_HEAD):
            return None
        if begins_in_head(head):
            return None
        speaker = speaker_of(head)
        if len(self._speakers) < MAX_HEADS:
            self._speakers[head] = speaker
        return speaker


def is_plain(half: bytes) -> bool:
    """Whether a half means the same in any line."""
    return not (
        half.translate(None, _PLAIN)
        or half.rstrip()[-1:] in _ENDS_OF_EMPHASIS
        or half.find(b"](http") >= 0  # links of web pages
        or (half.find(b"&") >= 0 and half.find(b";") >= 0)  # what they make of quotation marks
        or half.find(b" [repeated ") >= 0  # what Ray left out
        or half.find(b"x across cluster]") >= 0
    )
