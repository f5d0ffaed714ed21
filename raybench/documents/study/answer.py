"""What the answer of every kind of study has."""

from msgspec import field

from raybench.documents.part import FieldwisePart
from raybench.documents.price import Price

Headline = tuple[str, bool | None]
NOTHING = "nothing can be compared"


class Answer(FieldwisePart, frozen=True, kw_only=True, tag_field="+kind"):
    """What the trials of a kind of study say. ``remarks``: what a reader must know; the study has them with its own."""

    price: Price | None = None
    remarks: tuple[str, ...] = field(default=(), name="+remarks")

    @property
    def problems(self) -> tuple[str, ...]:
        """What makes the command end with 1: nothing, since what is slow or does not fit is an answer."""
        return ()

    @property
    def headline(self) -> Headline:
        """The answer in a line, and whether it is certain; None where there is nothing to compare."""
        raise NotImplementedError


def recommendation(recommended: str | None, why: str, *, certain: bool) -> Headline:
    """The headline of an answer that recommends one of the variants."""
    if recommended is None:
        return why, None
    return f"{'' if certain else 'likely '}use {recommended}: {why}", certain
