"""A table row of a parser: the literal that a message must contain, the expression that reads it, a real sample."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from diagnostics.parsers.literal_index import LiteralIndex

# what launchers, containers and system logs put in front of a program's line, where a time stamp is taken off already
CARRIED = (
    r"^(?:\s{0,12}\d{1,7}: |\[\d{1,9},\d{1,7}\]<std(?:out|err)>:|\[[\w\-]{1,40}\]:|\([^()]{1,200}\) |std(?:out|err) F |"
    r"(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S{1,100} \S{1,100}: |[\w.\-]{1,100}: |"
    r"\[pod/[^\]\s]{1,200}\] (?:\d{4}-\S{1,40} )?|- (?:[\w.\-]{1,100} - ){1,3})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One kind of message. ``expression`` is searched, not anchored; its named groups become the event's fields.

    ``literal`` must be in the message and is tested first. ``samples`` are real lines; tests read each of them.
    """

    kind: str
    literal: str
    expression: str
    samples: tuple[str, ...]


class Table(tuple[Pattern, ...]):
    """Patterns in order, of which those with a literal that is in a text are found without trying them all."""

    @cached_property
    def _index(self) -> LiteralIndex:
        return LiteralIndex([pattern.literal.encode() for pattern in self])

    def worth_trying(self, text: str) -> list[Pattern]:
        """The patterns whose literal is in a text."""
        return [self[number] for number in self._index.numbers_in(text.encode("utf-8", "surrogatepass"))]


@cache
def compiled(expression: str) -> re.Pattern[str]:
    """The expression, compiled when the first message needs it."""
    return re.compile(expression)


def front_and_end(text: str, characters: int) -> str:
    """A text, of which the middle is left out where it is longer: what failed stands at the front or at the end."""
    if len(text) <= characters:
        return text
    end = characters // 3
    return f"{text[: characters - end - 3]} … {text[-end:]}"


def read_message(patterns: Iterable[Pattern], text: str) -> list[tuple[str, dict[str, str]]]:
    """Kind and fields of every pattern that matches."""
    found = []
    held = (
        patterns.worth_trying(text) if isinstance(patterns, Table) else [one for one in patterns if one.literal in text]
    )
    for pattern in held:
        if match := compiled(pattern.expression).search(text):
            fields = match.groupdict()
            if None in fields.values():
                fields = {name: value for name, value in fields.items() if value is not None}
            found.append((pattern.kind, fields))
    return found
