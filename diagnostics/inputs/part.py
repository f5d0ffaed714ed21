"""A part of a file: lines that one job wrote, and who speaks in them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.events import ProcessKey
from diagnostics.inputs.files import Input
from diagnostics.inputs.json_objects import with_objects_joined
from diagnostics.inputs.reader import Batch, plain_size, read_batches, read_range
from diagnostics.inputs.tests_results import with_results_as_table


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """Lines of one file, from the line ``first_line`` at byte ``start`` up to byte ``end``, and who speaks in them.

    ``mixed``: those of several launches, which are too many to tell apart.
    """

    file: Input
    start: int = 0
    end: int | None = None
    first_line: int = 1
    mixed: bool = False
    communicators: dict[str, tuple[int, set[int]]] = field(default_factory=dict)  # id -> ranks, those that are named
    processes: set[ProcessKey] = field(default_factory=set)
    gpus: dict[tuple[str, str], int] = field(default_factory=dict)  # (host, bus) -> pid
    ranks: set[tuple[int, int]] = field(default_factory=set)  # (nranks, rank)

    @property
    def hosts(self) -> set[str]:
        """Hosts that speak."""
        return {host for host, _ in self.processes}


def read_part(part: Part) -> Iterator[Batch]:
    """The lines of a part, spread JSON objects joined, results as their table. Raises UnreadableInputError."""
    yield from with_objects_joined(with_results_as_table(_lines_of(part)))


def _lines_of(part: Part) -> Iterator[Batch]:
    if part.start == 0 and part.end is None:
        yield from read_batches(part.file)
        return
    size = plain_size(part.file)
    batches = _skipped_to(part) if size is None else read_range(part.file, part.start, part.end or size)
    for batch in batches:
        yield replace(batch, line=part.first_line) if batch.first else batch


def _skipped_to(part: Part) -> Iterator[Batch]:
    """The lines of a part of a file that can only be read from its start."""
    first = True
    for batch in read_batches(part.file):
        if batch.stop <= part.start:
            continue
        if part.end is not None and batch.place >= part.end:
            return
        end = None if part.end is None else max(part.end - batch.place - 1, 0)
        yield replace(batch, block=batch.block[max(part.start - batch.place, 0) : end], first=first)
        first = False


def merged(launches: Sequence[Part]) -> Part:
    """The whole file as one part, with all that is known of its launches."""
    merged = Part(file=launches[0].file)
    for one in launches:
        merged.mixed |= one.mixed
        merged.processes |= one.processes
        merged.gpus |= one.gpus
        for name, (nranks, ranks) in one.communicators.items():
            merged.communicators.setdefault(name, (nranks, set()))[1].update(ranks)
    return merged
