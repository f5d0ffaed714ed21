"""What every part of a document has, and parts whose fields are their keys, in their order.

Playbooks write documents of such parts on control nodes that may have the standard library only, so nothing else is
needed to write one. ``raybench.documents.part`` reads them, as it reads every other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import ClassVar

from diagnostics.plain_part import AnyPart, Json, PlainPart, json_of
from raybench.errors import MissingLibraryError

__all__ = ["AnyDocument", "AnyPart", "Json", "PlainDocument", "PlainPart", "json_of", "notebook_frame"]


class AnyDocument(AnyPart):
    """A whole document: its first key says which, and in which version it was written."""

    __slots__ = ()
    SCHEMA: ClassVar[str]
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema"})

    def _repr_html_(self) -> str:
        """The report, where a notebook shows the document."""
        import raybench  # documents know no reports; the package does, and imports them when it is asked

        return notebook_frame(lambda: raybench.html(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainDocument(AnyDocument, PlainPart):
    """A document that is written as its schema, then its fields, all of them, in their order."""

    def to_json(self) -> Json:
        """The document, its schema first."""
        return {"schema": self.SCHEMA, **PlainPart.to_json(self)}


def notebook_frame(page: Callable[[], str]) -> str:
    """A page within a notebook: in a frame without scripts, since hosts wrote a part of it, and with its own styles."""
    try:
        content = page()
    except MissingLibraryError as error:
        return f"<pre>{escape(str(error))}</pre>"
    style = "width: 100%; height: 40rem; border: 1px solid #8888; resize: vertical"
    return f'<iframe sandbox title="report" style="{style}" srcdoc="{escape(content)}"></iframe>'
