"""Parts of documents whose fields are their keys, in their order.

Playbooks write such documents on control nodes that may have the standard library only, so nothing else is needed to
write one. ``raybench.documents.part`` reads them, as it reads every other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPart:
    """A part of a document. ``unknown_keys``: those of a later raybench or of somebody else, written back as read."""

    unknown_keys: Mapping[str, Any] | None = None
    DERIVED: ClassVar[frozenset[str]] = frozenset()  # keys of the JSON that are no field

    @classmethod
    def stored(cls, content: Json) -> Json:
        """The fields by name of the JSON, from what a document has: an older one is brought up to date here."""
        return content

    def contradiction(self) -> str | None:
        """What in it cannot be true together; None where all is well."""
        return None

    def to_json(self) -> Json:
        """The part as in its document."""
        own = {one.name: json_of(getattr(self, one.name)) for one in fields(self) if one.name != "unknown_keys"}
        return own | dict(self.unknown_keys) if self.unknown_keys else own


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainDocument(PlainPart):
    """A whole document: its first key says which, and in which version it was written."""

    SCHEMA: ClassVar[str]
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema"})

    def to_json(self) -> Json:
        """The document, its schema first."""
        return {"schema": self.SCHEMA, **PlainPart.to_json(self)}


def json_of(value: Any) -> Any:
    """A field as JSON: parts and what holds them as dictionaries and lists."""
    if isinstance(value, PlainPart):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [json_of(one) for one in value]
    if isinstance(value, Mapping):
        return {key: json_of(one) for key, one in value.items()}
    return value
