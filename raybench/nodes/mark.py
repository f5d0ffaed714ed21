"""The reason that raybench writes when it drains a node, and how it is known again. Pure.

``raybench: gpu-rows, reset-gpu: 2 rows failed [5f0c1d2e]``: the number is a checksum of the node's name and the text.
Where an administrator has changed the text, or written one that only looks so, it is not raybench's any more, and the
node stays drained.
"""

import hashlib
import re

PREFIX = "raybench:"
_MARKED = re.compile(r"(raybench: .+) \[([0-9a-f]{8})\]")
_UNFIT = re.compile(r"[^A-Za-z0-9 ._:/+,()%-]")
_MOST_CHARACTERS = 160


def marked(node: str, text: str) -> str:
    """The reason for a drain of this node. What hosts wrote is cut to letters that no scheduler reads as its own."""
    plain = " ".join(_UNFIT.sub(" ", text).split())[:_MOST_CHARACTERS].rstrip()
    whole = f"{PREFIX} {plain or 'drain'}"
    return f"{whole} [{_checksum(node, whole)}]"


def is_marked(node: str, reason: str) -> bool:
    """Whether raybench wrote this reason, for this node, and nobody has changed it since."""
    found = _MARKED.fullmatch(reason.strip())
    return found is not None and found[2] == _checksum(node, found[1])


def _checksum(node: str, text: str) -> str:
    return hashlib.sha256(f"{node}\n{text}".encode()).hexdigest()[:8]
