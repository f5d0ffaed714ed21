"""Releases of programs, as pip writes them (``4.35.2``), and of which of them a fact is."""

import re
from dataclasses import dataclass

# 4.35, 4.35.2, v0.9.1, 0.11.0.post1, 4.49.0.dev0, 0.12.0rc0, 2024.8: what comes before a release counts as that.
_RELEASE = re.compile(r"v?(\d{1,8}(?:\.\d{1,8}){0,5})(?:[.-]?(?:a|b|rc|dev|post)\d{0,8})*(?:\+[a-z0-9.]{1,40})?")
_ASKED = re.compile(r"([^=<>!~@\s]+)\s*(==|[=<>!~@]+)?\s*(.*)")

Numbers = tuple[int, ...]


def numbers_of(release: str) -> Numbers | None:
    """``(4, 35, 2)`` of ``4.35.2``, without zeros at the end; None for what is no release."""
    found = _RELEASE.fullmatch(release.strip().lower())
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def name_and_release(asked: str) -> tuple[str, str | None]:
    """``transformers`` and ``4.35`` of ``transformers==4.35``; of the name alone None.

    The release is empty where what stands after the name is not ``==`` and one release.
    """
    found = _ASKED.fullmatch(asked.strip())
    if found is None or not (found[2] or numbers_of(found[3])):
        return asked, None
    is_one = found[2] == "==" and numbers_of(found[3]) is not None
    return found[1], found[3].strip().lower().removeprefix("v") if is_one else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The releases that may be meant: from ``least`` to ``most``, both among them; None: no bound."""

    least: Numbers | None = None
    most: Numbers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """Of which releases a fact is: from ``since`` on, and before ``until``; empty: no bound.

    ``of``: of a library that the program trains with; empty: of the program itself.
    """

    since: str = ""
    until: str = ""
    of: str = ""

    def hold(self, span: Span) -> bool | None:
        """Whether all the releases that may be meant are among these; None where some are."""
        since, until = numbers_of(self.since), numbers_of(self.until)
        is_after = since is None or (span.least is not None and span.least >= since)
        is_before = until is None or (span.most is not None and span.most < until)
        if is_after and is_before:
            return True
        too_old = since is not None and span.most is not None and span.most < since
        too_new = until is not None and span.least is not None and span.least >= until
        return False if too_old or too_new else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What the program's releases before ``until`` need of a library: from ``least`` to ``most``, both among them.

    Empty: no bound. The last has no ``until``. ``source``: the file that says so.
    """

    of: str
    source: str
    until: str = ""
    least: str = ""
    most: str = ""

    @property
    def span(self) -> Span:
        """What may be meant."""
        return Span(least=numbers_of(self.least), most=numbers_of(self.most))

    @property
    def in_words(self) -> str:
        """``transformers 4.41.2 to 4.46.1``."""
        if not self.least and not self.most:
            return f"any release of {self.of}"
        if self.least and self.most:
            return f"{self.of} {self.least}" + ("" if self.most == self.least else f" to {self.most}")
        return f"{self.of} from {self.least} on" if self.least else f"{self.of} up to {self.most}"
