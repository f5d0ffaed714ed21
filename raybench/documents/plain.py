"""What every part of a document has, and parts whose fields are their keys, in their order.

Playbooks write documents of such parts on control nodes that may have the standard library only, so nothing else is
needed to write one. ``raybench.documents.part`` reads them, as it reads every other.
"""

from dataclasses import dataclass
from typing import ClassVar

from diagnostics.plain_part import AnyPart, Json, PlainPart, json_of

__all__ = ["AnyDocument", "AnyPart", "Json", "PlainDocument", "PlainPart", "json_of"]


class AnyDocument(AnyPart):
    """A whole document: its first key says which, and in which version it was written."""

    __slots__ = ()
    SCHEMA: ClassVar[str]
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainDocument(AnyDocument, PlainPart):
    """A document that is written as its schema, then its fields, all of them, in their order."""

    def to_json(self) -> Json:
        """The document, its schema first."""
        return {"schema": self.SCHEMA, **PlainPart.to_json(self)}
