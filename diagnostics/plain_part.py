"""What every part of a document has, and parts whose fields are their keys: the standard library is all they need."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

Json = dict[str, Any]


class AnyPart:
    """A part of a document: typed, immutable, written and read by its own class.

    ``unknown_keys``: those of a later raybench or of somebody else, written back as read.
    """

    __slots__ = ()
    unknown_keys: Mapping[str, Any] | None
    DERIVED: ClassVar[frozenset[str]] = frozenset()  # keys of the JSON that are no field of that name

    @classmethod
    def stored(cls, content: Json) -> Json:
        """The fields by name of the JSON, from what a document has: an older one is brought up to date here."""
        return content

    def contradiction(self) -> str | None:
        """What in it cannot be true together; None where all is well."""
        return None

    def to_json(self) -> Json:
        """The part as in its document."""
        raise NotImplementedError

    def with_unknown(self, content: Json) -> Json:
        """The content, with the keys that were read and not known."""
        return content | dict(self.unknown_keys) if self.unknown_keys else content


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainPart(AnyPart):
    """A part that is written as its fields, all of them, in their order."""

    unknown_keys: Mapping[str, Any] | None = None

    def to_json(self) -> Json:
        """The part as in its document."""
        names = (one.name for one in fields(self) if one.name != "unknown_keys")
        return self.with_unknown({name: json_of(getattr(self, name)) for name in names})


def json_of(value: Any) -> Any:
    """A field as JSON: parts and what holds them as dictionaries and lists."""
    if isinstance(value, AnyPart):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [json_of(one) for one in value]
    if isinstance(value, Mapping):
        return {key: json_of(one) for key, one in value.items()}
    return value
