"""What lines that repeat each other have in common: the text that they are counted under, whoever prints it."""

import re
from collections.abc import Mapping

MAX_CHANNEL_KEYS = 10_000
_BRACKETS = re.compile(rb"(?:\[[^\]\n]{1,80}\] {0,20}){1,4}")


def behind_brackets(raw: bytes) -> bytes:
    """A line without the time, host and process that begin it in brackets, ``[1616.64] [ip-10-1-2-3:77:0]``."""
    match = _BRACKETS.match(raw)
    return raw[match.end() :] if match else raw


def channel_key(raw: bytes, channels: Mapping[bytes, int]) -> bytes | None:
    """What a channel line is counted under: its text from the ranks on, or its transport alone; None for a new one."""
    via = raw.find(b" via ")
    if via <= 0:
        return None
    key = raw[raw.find(b": ", via - 40 if via > 40 else 0) :].rstrip()
    if key not in channels and len(channels) >= MAX_CHANNEL_KEYS:
        key = raw[via:].rstrip()
    return key if key in channels else None


def behind_mark(raw: bytes) -> bytes:
    """What a line says, whoever printed it; the whole line where NCCL's mark is missing: PyTorch's name the rank."""
    mark = max(raw.find(b"NCCL INFO "), raw.find(b"NCCL WARN "))
    return raw[mark + 5 :] if mark >= 0 else raw


def communicator_id(raw: bytes) -> bytes | None:
    """The id of the communicator that a line names, on NCCL 2.16 and newer."""
    start = raw.find(b"commId ") + 7
    return raw[start : raw.find(b" ", start)] if start > 6 else None


def names_its_rank(text: bytes) -> bool:
    """Whether only one rank of one communicator says this: its start, completion, nodes, end and channels."""
    find = text.find
    return find(b" COMPLETE") >= 0 or find(b"- Init ") >= 0 or find(b" nNodes ") >= 0 or find(b" via ") >= 0
