"""Rows of tables with one expression, one literal and one sample a message, as parsers of programs have many."""

from diagnostics.parsers.base import Pattern

Row = tuple[str, str, str]  # what the scan looks for, the expression, a real line


def rows(kind: str, *tables: tuple[Row, ...], names_text: bool = False) -> tuple[Pattern, ...]:
    """Patterns of a kind; ``names_text``: all that the expression matches is the field ``text``."""
    return tuple(
        Pattern(
            kind=kind,
            literal=literal,
            expression=f"(?P<text>{expression})" if names_text else expression,
            samples=(sample,),
        )
        for table in tables
        for literal, expression, sample in table
    )
