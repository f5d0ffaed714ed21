"""Names of hosts in brief, ``gpu-[01-07,09], login``, and back. Pure."""

import re
from collections.abc import Iterable, Iterator
from itertools import product

from raybench.errors import UsageError

_LEAST_FOLDED = 3  # two names are shorter than their range is to read
_MOST_NAMES = 100_000
_NO_NUMBER = -1
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_SPAN = re.compile(r"([0-9]{1,9})(?:[-:]([0-9]{1,9}))?")


def folded(names: Iterable[str], most: int | None = None) -> str:
    """Names with runs of numbers as ranges: of an address its last number counts, else that before the first dot.

    Beyond ``most`` names and ranges the rest is counted: ``login, gpu-[01-07] and 3 more``.
    """
    cuts = [_cut(name) for name in dict.fromkeys(names)]
    padded = {(prefix, suffix, len(digits)) for prefix, digits, suffix in cuts if digits[:1] == "0" and digits != "0"}
    groups: dict[tuple[str, str, int], list[int]] = {}
    for prefix, digits, suffix in cuts:
        width = len(digits) if (prefix, suffix, len(digits)) in padded else 0
        groups.setdefault((prefix, suffix, width if digits else _NO_NUMBER), []).append(int(digits or 0))
    parts = [part for key, numbers in groups.items() for part in _parts(key, sorted(set(numbers)))]
    shown = parts[:most]
    more = len(cuts) - sum(count for _, count in shown)
    return ", ".join(text for text, _ in shown) + (f" and {more} more" if len(shown) < len(parts) else "")


def _cut(name: str) -> tuple[str, str, str]:
    """What is before, in and behind the number of a name; all of it before where it has none."""
    is_address = re.fullmatch(r"[0-9]+(\.[0-9]+){3}", name)
    label, dot, domain = (name, "", "") if is_address else name.partition(".")
    found = re.fullmatch(r"(.*?)([0-9]{1,9})([^0-9]*)", label)
    return (found[1], found[2], f"{found[3]}{dot}{domain}") if found else (name, "", "")


def _parts(key: tuple[str, str, int], numbers: list[int]) -> Iterator[tuple[str, int]]:
    """Names and ranges, with the number of names in each."""
    prefix, suffix, width = key
    if width == _NO_NUMBER:
        yield prefix, 1
    elif len(numbers) < _LEAST_FOLDED:
        yield from ((f"{prefix}{number:0{width}d}{suffix}", 1) for number in numbers)
    else:
        spans = ",".join(
            f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in _runs(numbers)
        )
        yield f"{prefix}[{spans}]{suffix}", len(numbers)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


def expanded(text: str) -> tuple[str, ...]:
    """The names in ``gpu-[01-10,12],login``: ranges as Slurm, pdsh or Ansible (``[01:10]``) write them, each name once.

    Raises UsageError for brackets that hold anything else, and for more names than any cluster has.
    """
    names: dict[str, None] = {}
    for part in filter(None, (part.strip() for part in re.split(r"[,\s]+(?![^\[]*\])", text))):
        literals, choices = _BRACKETS.split(part)[::2], [_numbers(inner, part) for inner in _BRACKETS.findall(part)]
        if any(letter in literal for literal in literals for letter in "[]"):
            raise UsageError(f"the hosts '{part}' have a bracket without its other; write them as gpu-[01-10]")
        for chosen in product(*choices):
            names["".join(a + b for a, b in zip(literals, (*chosen, ""), strict=True))] = None
            if len(names) > _MOST_NAMES:
                raise UsageError(f"the hosts '{part}' are more than {_MOST_NAMES}; is a number too long?")
    return tuple(names)


def _numbers(inner: str, part: str) -> list[str]:
    numbers: list[str] = []
    for span in inner.split(","):
        found = _SPAN.fullmatch(span.strip())
        low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if found is None or high < low or high - low >= _MOST_NAMES:
            raise UsageError(
                f"the hosts '{part}' have the range '{span}'; write numbers from low to high, as [01-10,12]"
            )
        numbers += [str(number).zfill(len(found[1])) for number in range(low, high + 1)]
    return numbers
