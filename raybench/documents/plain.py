"""What every part of a document has, and parts whose fields are their keys, in their order.

Playbooks write documents of such parts on control nodes that may have the standard library only, so nothing else is
needed to write one. ``raybench.documents.part`` reads them, as it reads every other.
"""

from dataclasses import dataclass

from diagnostics.plain_part import AnyDocument, AnyPart, Json, PlainPart, json_of, notebook_frame

__all__ = [
    "AnyDocument",
    "AnyPart",
    "Json",
    "PlainDocument",
    "PlainPart",
    "ReportedDocument",
    "json_of",
    "notebook_frame",
]


class ReportedDocument(AnyDocument):
    """A document that raybench has a report of."""

    __slots__ = ()

    def html_page(self) -> str:
        """The report as one page. Raises MissingLibraryError, an ImportError, without jinja2."""
        import raybench  # documents know no reports; the package does, and imports them when it is asked

        return raybench.html(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainDocument(ReportedDocument, PlainPart):
    """A document that is written as its schema, then its fields, all of them, in their order."""

    def to_json(self) -> Json:
        """The document, its schema first."""
        return {"schema": self.SCHEMA, **PlainPart.to_json(self)}
