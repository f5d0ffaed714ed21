"""Reading the tables beside code: facts with their source, one a line."""

import csv
from importlib.resources import files
from itertools import filterfalse


def read_table(package: str, name: str) -> tuple[dict[str, str], ...]:
    """Rows of a CSV file of a package, by the headings of its first line; lines that start with # are remarks."""
    return parse_table((files(package) / name).read_text(encoding="utf-8"))


def parse_table(text: str) -> tuple[dict[str, str], ...]:
    """Rows of CSV text, likewise."""
    return tuple(csv.DictReader(filterfalse(lambda line: line.startswith("#"), text.splitlines())))


def number(text: str) -> float | None:
    """The number of a cell; None where it is empty."""
    return float(text) if text else None
