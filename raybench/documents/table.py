"""Tables of documents for pandas: a column a figure, its unit in its name; what is unknown is missing.

pandas is imported when a table is asked for.
"""

import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raybench.documents.part import fields_of
from raybench.documents.plain import AnyPart
from raybench.errors import MissingLibraryError
from raybench.installation import install_advice

if TYPE_CHECKING:
    from pandas import DataFrame

Row = Mapping[str, Any]


def dataframe(rows: Iterable[Row], columns: Sequence[str]) -> "DataFrame":
    """The rows as a data frame of these columns. Raises MissingLibraryError, an ImportError, without pandas."""
    try:
        import pandas as pd  # an optional library
    except ImportError as error:
        advice = install_advice("pandas")
        raise MissingLibraryError(f"a data frame needs pandas, which is not installed: {advice}") from error
    held = list(rows)
    values = {column: [row.get(column) for row in held] for column in columns}
    return pd.DataFrame({column: pd.Series(found, dtype=_type_of(found)) for column, found in values.items()})


def _type_of(values: Sequence[Any]) -> str:
    """The type of a column: of a number or a truth that is unknown nothing is made up, and no 0 or False is either."""
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, float}:
        return "Int64" if kinds == {int} else "float64"
    return "boolean" if kinds == {bool} else "object"


def columns_of(kind: type[AnyPart], prefix: str = "") -> tuple[str, ...]:
    """Its fields in their order, those of a part within it behind that part's name; tables and lists have no column."""
    hints = typing.get_type_hints(kind)
    return tuple(column for name in fields_of(kind) for column in _columns(prefix + name, hints[name]))


def row_of(part: AnyPart, prefix: str = "") -> dict[str, Any]:
    """What a part has in the columns of its kind."""
    return dict(_cells(part, prefix))


def _columns(name: str, hint: Any) -> tuple[str, ...]:
    kinds = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    if any(typing.get_origin(kind) in (tuple, Mapping) for kind in kinds):
        return ()
    parts = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, AnyPart)]
    return columns_of(parts[0], f"{name}_") if parts else (name,)


def _cells(part: AnyPart, prefix: str) -> Iterator[tuple[str, Any]]:
    for name in fields_of(type(part)):
        value = getattr(part, name)
        if isinstance(value, AnyPart):
            yield from _cells(value, f"{prefix}{name}_")
        elif not isinstance(value, tuple | Mapping):
            yield prefix + name, value
