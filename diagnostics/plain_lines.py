"""Lines of the usual form, ``host:pid:tid [device] NCCL INFO message``, of which each half is read only once.

Every line of a process begins alike, and most processes say the same things. So who speaks is kept by the text before
NCCL's mark, and what is said by the text behind it. Halves that need the whole line to be understood (JSON, colours,
several messages, variables, what Ray left out) are not kept: such lines are read in full.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from diagnostics.parsers import info_patterns
from diagnostics.parsers.base import read_message
from diagnostics.prefix import Message

MARK = b"NCCL INFO "
MAX_HEADS = 20_000
MAX_BODIES = 20_000
MAX_HALF_BYTES = 400  # a longer one is read each time
_USUAL = re.compile(rb"([A-Za-z0-9_][A-Za-z0-9_.\-]{0,200}):(\d{1,9}):(\d{1,9}) \[(\d{1,4})\] ")
_PLAIN = bytes([9, *range(32, 127)])
_TOLD_BY_THE_WHOLE = (b"](http", b" [repeated ", b"x across cluster]")  # links of web pages; what Ray left out
_ENDS_OF_EMPHASIS = (b"*", b"_", b"`")
_NAMES_ITS_RANK = (b"- Init ", b" via ", b" nNodes ", b"opCount ")  # nobody else says the same

Found = Sequence[tuple[str, dict[str, str]]]


@dataclass(slots=True)
class PlainLines:
    """What is known of both halves."""

    _speakers: dict[bytes, Message] = field(default_factory=dict)
    _bodies: dict[bytes, Found] = field(default_factory=dict)

    def learn(self, raw: bytes, message: Message) -> None:
        """Keep who speaks, from a line of one message that was read in full."""
        mark = raw.find(MARK)
        if 0 < mark <= MAX_HALF_BYTES and message.level == "INFO" and len(self._speakers) < MAX_HEADS:
            head = raw[:mark]
            if _is_plain(head) and b"CCL" not in head and b"=" not in head and not head.startswith(b"{"):
                self._speakers[head] = replace(message, text="")

    def read(self, raw: bytes) -> tuple[Message, str, Found, bool] | None:
        """Who speaks, what is said, its kinds and fields, and whether it was said before; None for other lines."""
        mark = raw.find(MARK)
        if mark <= 0 or (speaker := self._speakers.get(raw[:mark]) or self._usual(raw[:mark])) is None:
            return None
        body = raw[mark + len(MARK) :].rstrip(b"\r")
        found = self._bodies.get(body)
        if found is not None:
            return speaker, "", found, True
        if len(body) > MAX_HALF_BYTES or not _is_plain(body) or b"NCCL " in body:
            return None
        text = body.decode().strip()
        found = read_message(info_patterns(text), text)
        if len(self._bodies) < MAX_BODIES and not any(literal in body for literal in _NAMES_ITS_RANK):
            self._bodies[body] = found
        return speaker, text, found, False

    def _usual(self, head: bytes) -> Message | None:
        """Who speaks in a line that no launcher wrote anything in front of."""
        match = _USUAL.fullmatch(head)
        if match is None:
            return None
        host, pid, thread, device = match.groups()
        name = host.decode().split(".")[0]
        speaker = Message(text="", level="INFO", host=name, pid=int(pid), thread=int(thread), device=int(device))
        if len(self._speakers) < MAX_HEADS:
            self._speakers[head] = speaker
        return speaker


def _is_plain(half: bytes) -> bool:
    """Whether a half means the same in any line."""
    return (
        not half.translate(None, _PLAIN)
        and half.rstrip()[-1:] not in _ENDS_OF_EMPHASIS
        and not any(literal in half for literal in _TOLD_BY_THE_WHOLE)
    )
