"""Text and numbers made fit to show. What came from a node (host names, findings, reasons) is never trusted."""

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}  # controls, bidirectional overrides, surrogates, separators


def printable(value: object) -> str:
    r"""Text in which nothing moves a cursor, changes a colour or reverses the line: ``\x1b[31m`` is shown as such."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if unicodedata.category(character) in _HIDDEN:
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return character


def fixed(value: float, width: int = 7) -> str:
    """A figure with as many of two decimals as the width has room for: ``12.34``, ``12345.6``, ``1.2e+09``."""
    for digits in (2, 1, 0):
        text = f"{value:.{digits}f}"
        if len(text) <= width:
            return text
    return f"{value:.1e}"


def bandwidth(gb_per_second: float) -> str:
    """GB/s for a table: two decimals, more below 0.1, where two would show one digit or none."""
    if 0 < gb_per_second < 0.000_05:
        return "0.0000"
    return f"{gb_per_second:.4f}" if gb_per_second < 0.1 else fixed(gb_per_second, 6)


def microseconds(seconds: float) -> str:
    """A time in microseconds for a table, without its unit."""
    return fixed(seconds * 1e6, 8)


def percent(fraction: float | None) -> str:
    """A fraction as a whole percentage, with a decimal below 10 %; a dash where there is none."""
    if fraction is None:
        return "-"
    return f"{fraction:.1%}" if fraction < 0.0995 else f"{fraction:.0%}"


def percent_beside(fraction: float, limits: tuple[float, ...]) -> str:
    """`percent`, with a decimal where it would show a limit that the fraction is not: ``19.6%`` of a limit of 20 %."""
    text = percent(fraction)
    apart = fraction not in limits and text in {percent(limit) for limit in limits}
    return f"{fraction:.1%}" if apart else text


def count_of(number: int, noun: str) -> str:
    """``1 node``, ``4 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted(number: int, noun: str) -> str:
    """``1 rank``, ``7,999 ranks``: for counts that may be large."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_left(seconds: float) -> str:
    """A rough duration: ``under 1 s``, ``12 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
