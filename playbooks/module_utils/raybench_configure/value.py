"""Values of the inventory, refused where they could be anything but what they should be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .errors import RefusedError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_PATTERNS = {
    "interface": (r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", "the name of a network interface"),
    "module": (r"[A-Za-z0-9_][A-Za-z0-9_-]{0,55}", "the name of a kernel module"),
    "package": (r"[A-Za-z0-9][A-Za-z0-9+._-]{0,127}", "the name of a package"),
    "sysctl": (r"[a-z][a-z0-9_]*(?:\.[A-Za-z0-9_-]+)+", "a kernel parameter such as net.core.rmem_max"),
    "server": (r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}", "a host name or an address"),
    "device": (r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}", "the name of an RDMA device"),
    "url": (r"https?://[A-Za-z0-9._~:/?#@!&*+,;=%-]+|file:/[A-Za-z0-9._/-]+", "an address that begins with https://"),
    "nccl": (r"NCCL_[A-Z0-9_]+", "a variable of NCCL"),
    "user": (r"[a-z_][a-z0-9_-]{0,31}", "the name of a user"),
    "governor": (r"[a-z_]{1,32}", "the name of a CPU governor"),
}


def named(kind: str, value: Any, variable: str) -> str:
    """The value where it is a name of that kind. Raises RefusedError."""
    pattern, meaning = _PATTERNS[kind]
    text = value if isinstance(value, str) else ""
    if not re.fullmatch(pattern, text):
        raise RefusedError(f"{variable} is {value!r}, which is not {meaning}; nothing was changed")
    return text


def all_named(kind: str, values: Any, variable: str) -> list[str]:
    """Every value of a list, each once and in order. Raises RefusedError."""
    if not isinstance(values, list):
        raise RefusedError(f"{variable} is {values!r}; give a list")
    return list(dict.fromkeys(named(kind, value, variable) for value in values))


def line(value: Any, variable: str) -> str:
    """A value that fits on one line of a configuration file. Raises RefusedError on control characters."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise RefusedError(f"{variable} is {value!r}; give text or a number")
    text = str(value).strip()
    if not text or not text.isprintable():
        raise RefusedError(f"{variable} is {text!r}; give one line of visible characters")
    return text


def whole(value: Any, variable: str, allowed: range) -> int:
    """An integer within a range. Raises RefusedError."""
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,18}", text) or int(text) not in allowed:
        raise RefusedError(f"{variable} is {value!r}; give a whole number from {allowed[0]} to {allowed[-1]}")
    return int(text)


def one_of(value: Any, variable: str, allowed: Iterable[str]) -> str:
    """A value of a fixed list. Raises RefusedError."""
    if value not in tuple(allowed):
        raise RefusedError(f"{variable} is {value!r}; give one of {', '.join(allowed)}")
    return str(value)


def size_bytes(value: Any, variable: str, whole_bytes: int) -> int:
    """Bytes in ``64G``, ``512M`` or ``50%`` of ``whole_bytes``. Raises RefusedError."""
    found = re.fullmatch(r"(\d{1,15})([KMGT%]?)(?:iB|B)?", str(value))
    if not found or int(found[1]) == 0:
        raise RefusedError(f"{variable} is {value!r}; give a size such as 64G, or a share of the memory such as 50%")
    if found[2] == "%":
        share = int(found[1])
        if share > 100:
            raise RefusedError(f"{variable} is {value!r}; more than the memory there is")
        return whole_bytes * share // 100
    return int(found[1]) * _UNITS[found[2]]
