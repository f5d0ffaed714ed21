"""Steps of a training as its document has them, those of older documents too."""

from itertools import islice

from raybench.documents.part import DamageError, take
from raybench.documents.plain import Json
from raybench.documents.quantity import Count, Seconds


def launches_of(content: Json) -> list[tuple[float, ...]]:
    """Steps by launch; those of an older document, which has not said how many, are equally many."""
    samples = take(content, "samples_seconds", of=tuple[Seconds, ...]) or ()
    lengths = take(content, "launch_steps", of=tuple[Count, ...])
    if lengths is None:
        count = len(take(content, "repeats", "means_seconds", of=tuple[float, ...]) or ()) or 1
        lengths = (len(samples) // count,) * count if len(samples) % count == 0 else (len(samples),)
    if sum(lengths) != len(samples):
        raise DamageError(".samples_seconds", f"{len(samples)} steps in launches of {sum(lengths)}")
    left = iter(samples)
    return [tuple(islice(left, length)) for length in lengths]


def rank_steps_of(content: Json) -> list[tuple[float, float]]:
    """Of each timed step the fastest and the slowest rank's own time."""
    fastest, slowest = (
        take(content, "rank_step_seconds", name, of=tuple[float, ...]) or () for name in ("fastest", "slowest")
    )
    if len(fastest) != len(slowest):
        raise DamageError(".rank_step_seconds", f"{len(fastest)} fastest and {len(slowest)} slowest steps")
    return list(zip(fastest, slowest, strict=True))
