"""What programs wrote into a line of NCCL's: processes that share a pipe tear their lines into each other.

``... via P2P/IPC[rank2]: RuntimeError: ...`` or ``RuntimeError: ...node1:812:934 [0] NCCL INFO ...``. Only what begins
as no message of NCCL's does is taken for another line: PyTorch's mark of a rank, the place in its sources, a traceback,
an exception with its name.
"""

import re
from collections.abc import Iterator
from functools import cache

from diagnostics.scanning.prefix import start_of_next

_BEGINS = (
    r"\[[EWF](?:\d{3,4} [\d:.]+)? ?(?:\d+ )?\w+\.(?:cpp|cc):\d+\] |Traceback \(most recent call last\)|"
    r"(?:[a-z_]\w*\.)+_?[A-Z]\w*(?:Error|Exception)(?:: |$)|"
    r"(?<![A-Za-z])_?[A-Z][a-z]\w*(?:Error|Exception): |(?<=[a-z\d\])>/C])[A-Z][a-z]\w*(?:Error|Exception): |"
    r"terminate called |(?:srun|slurmstepd): error: "
)
_BEHIND = rf"\[rank\d{{1,6}}\]:|\(\w*Ray\w* pid=\d+|{_BEGINS}"  # which a launcher puts before NCCL's lines, too


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def begins_in_body(body: bytes) -> bool:
    """Whether another program's line begins inside what NCCL says."""
    return (b"[" in body or b"r" in body) and _compiled(_BEHIND).search(body.decode("ascii", "replace")) is not None


def begins_in_head(head: bytes) -> bool:
    """Whether another program's line stands before NCCL's mark."""
    return len(head) > 40 and _compiled(_BEGINS).search(head.decode("ascii", "replace")) is not None


def glued_parts(text: str) -> Iterator[str]:
    """The parts of a line with NCCL's mark that other programs wrote, each up to NCCL's next mark."""
    first = text.find("NCCL ")
    begun = [found.start() for found in _compiled(_BEGINS).finditer(text, 0, max(first, 0))][:1]
    if (behind := _compiled(_BEHIND).search(text, max(first, 0))) is not None:
        begun.append(behind.start())
    for start in begun:
        yield text[start : start_of_next(text, start)].strip()
