"""Reading a JSON document: its schema and version are checked, and of what is damaged one line says what and where.

Every document that raybench writes begins with ``"schema": "raybench.NAME/VERSION"``. A newer version than this one
writes is refused: what it means may have changed.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from raybench.errors import UsageError

_DEEPEST = 60  # levels; the deepest that is written has a dozen
_LARGEST = 2**63
_MOST_BYTES = 2**31
_DAMAGE = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)


class DocumentError(UsageError):
    """A document cannot be read: it is another, of a newer version, or damaged."""


def read_document(path: Path, schema: str, what: str) -> dict[str, Any]:
    """The content of a document of ``schema`` (``raybench.result/1``); ``what`` names it in errors (``the baseline``).

    Raises DocumentError, a UsageError.
    """
    return _checked(json_of_file(path, what), schema, f"{what} {path}")


def document_of(data: bytes, schema: str, where: str) -> dict[str, Any]:
    """The same for what was read already; ``where`` begins each error."""
    return _checked(json_of(data, where), schema, where)


def json_of_file(path: Path, what: str) -> Any:
    """The JSON in a file, nested and sized as a document may be. Raises DocumentError."""
    try:
        data = _bytes(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise DocumentError(f"{what} {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return json_of(data, f"{what} {path}")


def json_of(data: bytes, where: str) -> Any:
    """The same for what was read already."""
    try:
        content = msgspec.json.decode(data)
        place = None if _is_plain(content) else _strange_place(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DocumentError(f"{where} is no JSON, or damaged ({_first_line(error)})") from error
    if place is not None:
        raise DocumentError(f"{where} is damaged: {place}")
    return content


def _checked(content: Any, schema: str, where: str) -> dict[str, Any]:
    check_schema(content, schema, where)
    assert isinstance(content, dict)
    return content


def check_schema(content: object, schema: str, where: str) -> None:
    """Raises DocumentError unless the content says that it is of this schema, in a version that is known here."""
    name, _, version = schema.partition("/")
    found = content.get("schema") if isinstance(content, dict) else None
    given = re.fullmatch(r"([\w.-]{1,80})/([0-9]{1,9})", found) if isinstance(found, str) else None
    if given is None or given[1] != name:
        other = f"its schema is {str(found)[:80]!r}" if found is not None else "it has no schema"
        raise DocumentError(f"{where} is no {schema}: {other}")
    if int(given[2]) > int(version):
        raise DocumentError(
            f"{where} was written by a newer raybench ({found}; this one reads {schema}): update raybench"
        )
    if int(given[2]) < int(version):
        raise DocumentError(
            f"{where} was written by an older raybench ({found}; this one reads {schema}): make it again"
        )


@contextlib.contextmanager
def taking_apart(where: str) -> Iterator[None]:
    """Say of whatever is not as it is written, while a document is taken apart within the block, that it is damaged."""
    try:
        yield
    except UsageError:
        raise
    except msgspec.ValidationError as error:
        raise DocumentError(f"{where} is damaged: {_first_line(error)}") from error
    except KeyError as error:
        raise DocumentError(f"{where} is not whole: {str(error)[:100]} is missing") from error
    except _DAMAGE as error:
        raise DocumentError(f"{where} is damaged: {_first_line(error)}") from error


def _bytes(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_size > _MOST_BYTES:
            raise OSError(f"it has {found.st_size / 2**30:.1f} GiB, and no document has")
        return file.read(_MOST_BYTES)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]


def _is_plain(content: object) -> bool:
    """Whether there is nothing to look for a place of: most documents, so that their places are not spelt out."""
    level: list[Any] = [[content]]
    for _ in range(_DEEPEST):
        below = []
        for value in level:
            for one in value.values() if type(value) is dict else value:
                kind = type(one)
                if (kind is dict or kind is list) and one:
                    below.append(one)
                elif kind is int and abs(one) >= _LARGEST:
                    return False
        if not below:
            return True
        level = below
    return False


def _strange_place(content: object) -> str | None:
    """Where it is nested deeper, or has a larger whole number, than what is ever written; None where all is well."""
    waiting: list[tuple[object, str, int]] = [(content, "$", 0)]
    while waiting:
        value, place, depth = waiting.pop()
        if isinstance(value, int) and abs(value) >= _LARGEST:
            return f"a number of {len(str(value)) if abs(value) < 10**400 else 'too many'} digits at {place[:100]}"
        if not isinstance(value, dict | list) or not value:
            continue
        if depth == _DEEPEST:
            return f"more than {_DEEPEST} levels deep at {place[:100]}"
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        waiting += [
            (one, f"{place}.{key}" if isinstance(value, dict) else f"{place}[{key}]", depth + 1)
            for key, one in parts
            if isinstance(one, dict | list | int)
        ]
    return None
