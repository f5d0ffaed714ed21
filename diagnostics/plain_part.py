"""What every part of a document has, and parts whose fields are their keys: the standard library is all they need."""

from collections.abc import Callable, Mapping
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


class AnyDocument(AnyPart):
    """A whole document: its first key says which, and in which version it was written."""

    __slots__ = ()
    SCHEMA: ClassVar[str]
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema"})

    def html_page(self) -> str:
        """The report as one page. Raises ImportError where a library that it needs is not installed."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """The report, where a notebook shows the document."""
        return notebook_frame(self.html_page)


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


def notebook_frame(page: Callable[[], str]) -> str:
    """A page within a notebook: in a frame without scripts, since hosts wrote a part of it, and with its own styles."""
    from html import escape  # no command needs it to write a document

    try:
        content = page()
    except ImportError as error:
        return f"<pre>{escape(str(error))}</pre>"
    style = "width: 100%; height: 40rem; border: 1px solid #8888; resize: vertical"
    return f'<iframe sandbox title="report" style="{style}" srcdoc="{escape(content)}"></iframe>'
