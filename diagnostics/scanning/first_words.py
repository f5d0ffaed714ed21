"""NCCL's warnings quoted from their middle: the first words that they lost are put back where the rest is NCCL's own.

What else in a line shows that it is NCCL's: its fields (``next state RTR``, ``vendor_err``, ``/dev/shm/nccl-...``), a
peer as NCCL writes it (``10.0.0.1<4312>``), the names of its calls beside its punctuation (``failed : ``). A call that
any program may name (``recv failed: Connection reset by peer``) stays as it is, unless NCCL's mark stands before it.
"""

from diagnostics.parsers.base import compiled

_PEER = r"[\w.:\[\]%\-]{2,80}<\d{1,5}>"
_VENDOR = r"vendor[_ ]err[ =]\d"
_REASON = r"(?=[A-Z][a-z]|\d{1,3}\b)"
_AT_START = r"^(?:[\"'`(\[]|\.{3} ?|\W?to )?"
_OWN_SOCKET = r"(?:recv|send|bind|listen|accept|socket|[gs]etsockopt|getsockname)"
_MARKED = (  # behind NCCL's mark: where a call begins the warning
    rf"^((?:socketProgress(?:Opt)?: )?)(?={_OWN_SOCKET}(?: (?:from|to) \S+)? failed ?: ?[A-Z]"
    r"|(?:poll|fcntl|open|mmap|ftruncate|shm_open|(?:posix_)?fallocate|getifaddrs|connect) failed ?: ?[A-Z]"
    r"|(?:ibv|mlx5dv)_\w+ failed\b)"
)
# (what such a line holds, the place where words are missing, these words)
_ROWS: tuple[tuple[str, str, str], ...] = (
    ("ibv_", rf"(?<!Call to )(?<![\w/.])(?=ibv_\w+ failed with (?!error \d)(?:error )?{_REASON})", "Call to "),
    (" failed : ", rf"(?<!Call to )\b(?=(?:recv from|send to) {_PEER} failed : [A-Z])", "Call to "),
    (
        " failed : ",
        r"(?<!Call to )(?<![\w:/.])(?=(?:posix_fallocate|fallocate|ftruncate|shm_open|getifaddrs) failed : [A-Z])",
        "Call to ",
    ),
    (
        " failed : ",
        rf"{_AT_START}(?={_OWN_SOCKET} failed : (?:Connection|Address|Broken|Cannot|Operation not|Permission|No)\b)",
        "Call to ",
    ),
    ("> returned ", rf"^(?:\W{{0,3}}to )?(?={_PEER} returned (?:[A-Z]|\d{{1,3}}\())", "connect to "),
    ("vendor", rf"^\W{{0,3}}(?:with )?(?=status=\S+ opcode=\S+ .{{0,100}}?{_VENDOR})", "Got completion with "),
    ("vendor", r"^\W{0,3}(?:with )?(?=error \d{1,2}, opcode \d+, len \d+, vendor err \d)", "Got completion with "),
    (
        "vendor",
        rf"(?<!Got )\b(?=completion (?:from peer .{{0,80}})?with (?:error|status=).{{0,100}}?{_VENDOR})",
        "Got ",
    ),
    ("failed to extend", r"(?<!Error: )\b(?=failed to extend /dev/shm/nccl-\S+ to \S+ bytes)", "Error: "),
    ("shared memory segment", r"(?<!Error )\b(?=while (?:creating|attaching to) shared memory segment \S)", "Error "),
    ("async fatal event", r"(?<!: )(?<!:\d )\b(?=async fatal event on (?:QP|CQ|SRQ) \()", "NET/IB : "),
    ("losed by remote peer", rf"(?<!onnection )\b(?=closed by remote peer {_PEER})", "Connection "),
    ("no socket interface found", r"^(?=no socket interface found)", "Bootstrap : "),
)
_QUEUE_PAIR = r"^\W{0,3}(?:on dev \S+, )?(?=curr state \w{3,8}, next state \w{3,8}\b)"


def with_first_words(text: str, *, marked: bool = False, alone: bool = True) -> str:
    """The message with the words that it lost, or as it is.

    ``marked``: NCCL's mark stands before it. ``alone``: the line before is no beginning of the same message.
    """
    if marked:
        return compiled(_MARKED).sub(r"\1Call to ", text, count=1)
    for held, place, words in _ROWS:
        if held in text and (found := compiled(place).search(text)) is not None:
            return text[: found.start()] + words + text[found.end() :]
    if alone and "next state " in text and (found := compiled(_QUEUE_PAIR).match(text)) is not None:
        return f"Call to ibv_modify_qp failed, {text[found.end() :]}"
    return text
