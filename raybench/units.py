"""Byte counts, durations and bandwidths: text to numbers and back.

Sizes on the command line use the suffixes of nccl-tests, which are binary (``K`` = 1024). Bandwidths are decimal
(GB/s = 10^9 bytes per second), as nccl-tests and every link's data sheet count them.
"""

import re
from fractions import Fraction

from raybench.errors import UsageError

_BINARY_SUFFIX = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_LARGEST = 2**60
_SIZE = re.compile(r"(?P<number>[0-9]{1,24}(?:\.[0-9]{1,24})?)\s*(?P<suffix>[KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Bytes in a size such as ``8``, ``4M``, ``1.5G`` or ``64KiB``. Suffixes are binary, as in nccl-tests.

    Raises UsageError when the text is not a size, is zero or over 1 EiB, or is not a whole number of bytes.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"'{text}' is not a size in bytes; write a number with an optional K, M, G or T, such as 64M")
    byte_count = Fraction(match["number"]) * _BINARY_SUFFIX[match["suffix"].upper()]
    if byte_count < 1 or byte_count.denominator != 1:
        raise UsageError(f"'{text}' is {float(byte_count):g} bytes; a size is a whole number of at least 1 byte")
    if byte_count > _LARGEST:
        raise UsageError(f"'{text}' is more than any machine holds; write a size in bytes such as 64M")
    return int(byte_count)


def parse_amount(option: str, text: str, least: str) -> int:
    """Bytes of an option's size that is of use only from ``least`` on: ``5`` for ``5G`` is refused, not measured.

    Raises UsageError, as ``parse_bytes`` does.
    """
    try:
        byte_count = parse_bytes(text)
    except UsageError as error:
        raise UsageError(f"{option} {error}") from error
    if byte_count < parse_bytes(least):
        unit = f", such as {text.strip()}G" if text.strip().isdecimal() else ""
        raise UsageError(f"{option} {text} is {byte_count} bytes; it must be at least {least}: write its unit{unit}")
    return byte_count


def format_bytes(byte_count: int) -> str:
    """The shortest exact text of a size: ``8``, ``64K``, ``1M``; inexact sizes get one decimal, ``1.5M``."""
    for suffix in ("T", "G", "M", "K"):
        unit = _BINARY_SUFFIX[suffix]
        if byte_count >= unit or (suffix != "K" and round(byte_count / unit, 1) >= 1):
            return f"{byte_count // unit}{suffix}" if byte_count % unit == 0 else f"{byte_count / unit:.1f}{suffix}"
    return str(byte_count)


def exact_bytes(byte_count: int) -> str:
    """The same, and all digits where one decimal is not exact: two sizes never have one text."""
    text = format_bytes(byte_count)
    unit = _BINARY_SUFFIX.get(text[-1], 1)
    is_exact = Fraction(text.rstrip("".join(_BINARY_SUFFIX))) * unit == byte_count
    return text if is_exact else f"{text} ({byte_count} bytes)"


def format_seconds(seconds: float) -> str:
    """A duration in the unit a person would choose: ``12.3 us``, ``4.56 ms``, ``7.8 s``, ``2 min 5 s``."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    if seconds < 1:
        return f"{seconds * 1e3:.2f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def hours_told(hours: tuple[float, float]) -> tuple[tuple[float, float], str]:
    """A range of hours in the unit a person would choose, and that unit: ``hours``, ``min`` or ``s``."""
    for most, unit, times in ((0.05, "s", 3600), (2.0, "min", 60)):
        if hours[1] < most:
            return (hours[0] * times, hours[1] * times), unit
    return hours, "hours"


def amounts(pair: tuple[float, float]) -> str:
    """A range of money: ``2,332 to 4,512``; ``0.07 to 0.12`` where it is so little."""
    digits = 0 if pair[1] >= 10 else 2
    return " to ".join(f"{amount:,.{digits}f}" for amount in pair)


def short_number(value: float) -> str:
    """Three digits: ``344k``, ``1.56M``, ``12.3``."""
    for limit, suffix in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if value >= limit:
            scaled = value / (1e3 if suffix == "k" else limit)
            return f"{scaled:.3g}{suffix}" if scaled < 1000 else f"{scaled:,.0f}{suffix}"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def format_share(share: float) -> str:
    """``2.5%`` of 0.025: as it was typed, never rounded to another."""
    return f"{share * 100:.10g}%"
