"""The launches in one file: where a job ends in it and another begins, a GPU has another process from some line on.

A job on other hosts is told by another communicator of as many ranks that begins where those of the one before have all
destroyed theirs (in files of up to SAMPLED_FROM_BYTES).
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, takewhile

from diagnostics.errors import UnreadableInputError
from diagnostics.events import ProcessKey
from diagnostics.inputs.files import Input
from diagnostics.inputs.flight_recorder import is_dump
from diagnostics.inputs.part import Part, merged, read_part
from diagnostics.inputs.reader import Batch, plain_size, read_batches, read_range
from diagnostics.inputs.speakers import (
    Sampling,
    Seen,
    Start,
    in_pieces,
    look_at,
    prefixes_of,
    sample,
)

MAX_HEAD_BYTES = 2**23
SAMPLED_FROM_BYTES = 2**23  # where the launches of a larger file begin is found by one line of SAMPLED_BYTES first
MIN_SHARED_BYTES = 2**25
MAX_LAUNCHES = 1000  # of one file
_DESTROYED = b"- Destroy COMPLETE"
MAX_RESTART_BYTES = 2**16  # of what ranks and their agent print before the ranks that were started again
STARTS_AGAIN = b"will restart worker group"  # of PyTorch's agent
MAX_LATE_LINES = 5  # of processes that end, behind the first line of those that take their place


def survey(file: Input, processes: int = 1) -> list[Part]:
    """The parts of one file: more than one where a job ends in it and another begins."""
    whole = Part(file=file)
    if is_dump(file.name) or not os.path.isfile(file.name):  # noqa: PTH113 - a pipe can be read but once
        return [whole]
    size = plain_size(file) or 0
    try:
        looks = _seen(look_at, file, size, processes)
        whole.processes = looks[0].speakers
        starts = [start for look in looks for start in look.starts]
        if size <= SAMPLED_FROM_BYTES and (apart := _by_ends(file, starts)):
            return _joined_at_restarts(apart)
        launches = launches_of(file, starts)
        if len(launches) > 1 and size <= SAMPLED_FROM_BYTES:
            return _joined_at_restarts(_cut(file, launches))
        if len(launches) > 1:
            cut = _cut_by_samples(file, launches, starts, _seen(sample, file, size, processes))
            return _joined_at_restarts(cut)
    except UnreadableInputError:
        return [whole]
    for launch in launches:
        launch.processes |= whole.processes
    return launches or [whole]


def _joined_at_restarts(parts: Sequence[Part]) -> list[Part]:
    """The parts, one job where an agent says that it starts the ranks of a part again in the next one."""
    joined = list(parts[:1])
    for before, part in pairwise(parts):
        if not _is_started_again(before, part):
            joined.append(part)
            continue
        whole = merged([joined[-1], part])
        whole.start, whole.first_line, whole.end = joined[-1].start, joined[-1].first_line, part.end
        joined[-1] = whole
    return joined


def _is_started_again(before: Part, part: Part) -> bool:
    """Whether the lines shortly before a part are those of an agent that starts its ranks again."""
    between = Part(file=part.file, start=max(before.start, part.start - MAX_RESTART_BYTES), end=part.start)
    return any(STARTS_AGAIN in batch.block for batch in read_part(between))


def _seen(read: Callable[[Iterable[Batch]], Seen], file: Input, size: int, processes: int) -> list[Seen]:
    """What is seen in a file, in pieces where it is large and several processes are there."""
    if processes > 1 and size >= MIN_SHARED_BYTES:
        return in_pieces(read, file, size, processes)
    return [read(read_batches(file))]


def survey_head(file: Input) -> Part:
    """A growing file as one part, by what its first MAX_HEAD_BYTES say; nothing where it cannot be opened."""
    whole = Part(file=file)
    try:
        look = look_at(takewhile(lambda batch: batch.place <= MAX_HEAD_BYTES, read_batches(file)))
    except UnreadableInputError:
        return whole
    whole.processes = look.speakers
    return merged([*launches_of(file, look.starts), whole])


@dataclass(slots=True)
class Launches:
    """The launches of a file: a new one begins where a GPU has another process, of no communicator known by then.

    The last of MAX_LAUNCHES holds all that come behind it, and is ``mixed`` then.
    """

    file: Input
    by_ends: bool = False  # also where others begin a communicator of as many ranks, if those before have ended
    parts: list[Part] = field(default_factory=list)
    if_ended: set[int] = field(default_factory=set)  # the numbers of parts that begin so

    def take(self, start: Start) -> None:
        """Take the next start or completion."""
        if start.nranks < 2:
            return  # a world of its own tells nothing of the others
        gpu, rank = (start.process[0], start.bus), (start.nranks, start.rank)
        now = self.parts[-1] if self.parts else None
        if now is None or _begins_again(now, start.process, gpu, start.comm_id, rank):
            now = self._begin(start.place)
        elif self.by_ends and _is_of_others(now, start):
            self.if_ended.add(len(self.parts))
            now = self._begin(start.place)
        now.processes.add(start.process)
        now.gpus[gpu] = start.process[1]
        now.ranks.add(rank)
        if start.comm_id:
            now.communicators.setdefault(start.comm_id, (start.nranks, set()))[1].add(start.rank)

    def _begin(self, place: int) -> Part:
        if len(self.parts) < MAX_LAUNCHES:
            self.parts.append(Part(file=self.file, start=place if self.parts else 0))
        else:
            self.parts[-1].mixed = True
        return self.parts[-1]


def _is_of_others(now: Part, start: Start) -> bool:
    """Whether a communicator of other processes begins, as large as one that was complete by then."""
    if start.process in now.processes or start.comm_id is None or start.comm_id in now.communicators:
        return False
    alike = [ranks for nranks, ranks in now.communicators.values() if nranks == start.nranks]
    return bool(alike) and all(len(ranks) == start.nranks for ranks in alike)


def _by_ends(file: Input, starts: Sequence[Start]) -> list[Part]:
    """The parts of a file, some of them told by the end of those before; none where no part is told so."""
    launches = Launches(file, by_ends=True)
    for start in starts:
        launches.take(start)
    if not launches.if_ended:
        return []
    parts = _cut(file, launches.parts)
    if len(parts) < len(launches.parts) or any(part.mixed for part in parts):
        return []
    ends = _ends(file)
    for number in launches.if_ended:
        if any(
            ends.get(process, parts[number].start) >= parts[number].start for process in parts[number - 1].processes
        ):
            return []
    return parts


def _ends(file: Input) -> dict[ProcessKey, int]:
    """Where each process of a file destroys a communicator for the last time."""
    ends: dict[ProcessKey, int] = {}
    for batch in read_batches(file):
        for begin, match in prefixes_of(batch.block):
            end = batch.block.find(b"\n", begin)
            if batch.block.find(_DESTROYED, begin, end if end >= 0 else len(batch.block)) >= 0:
                ends[match[1].decode(), int(match[2])] = batch.place + begin
    return ends


def launches_of(file: Input, starts: Iterable[Start]) -> list[Part]:
    """A part for each launch that starts tell of."""
    launches = Launches(file)
    for start in starts:
        launches.take(start)
    return launches.parts


def _begins_again(
    now: Part, process: ProcessKey, gpu: tuple[str, str], name: str | None, rank: tuple[int, int]
) -> bool:
    taken = now.gpus.get(gpu, process[1]) != process[1] and process not in now.processes
    return taken and (name not in now.communicators if name else rank in now.ranks)


def _cut(file: Input, launches: list[Part]) -> list[Part]:
    """The launches with the places where they begin: the first line of a process that the one before does not know.

    Where processes of an earlier one go on speaking, both run side by side, and the file is one part.
    """
    number, following, late = 1, 1, 0
    for batch in read_batches(file):
        block, counted = batch.block, 0
        for begin, match in prefixes_of(block):
            process = (match[1].decode(), int(match[2]))
            before = launches[following - 1]
            if following < len(launches) and process in launches[following].processes - before.processes:
                number, counted = number + block.count(b"\n", counted, begin), begin
                launches[following].start = before.end = batch.place + begin
                launches[following].first_line = number
                following += 1
            elif process not in before.processes and any(process in one.processes for one in launches[: following - 1]):
                late += 1
        number += block.count(b"\n", counted) + (not batch.torn)
    return launches if following == len(launches) and late <= MAX_LATE_LINES * len(launches) else [merged(launches)]


def _cut_by_samples(file: Input, launches: list[Part], starts: Sequence[Start], seen: Sequence[Sampling]) -> list[Part]:
    """As ``_cut``, of a large file: each line is read only between the samples around a place to cut."""
    samples = {one for piece in seen for one in piece.samples}
    samples.update((start.place, start.process) for start in starts)
    following, late, before = 1, 0, 0
    now, new, earlier = launches[0], launches[1].processes - launches[0].processes, set[ProcessKey]()
    for place, process in sorted(samples):
        if process in new:
            launches[following].start = now.end = _first_line(file, before, place, new)
            earlier |= now.processes
            now, following = launches[following], following + 1
            new = launches[following].processes - now.processes if following < len(launches) else set()
        elif process in earlier and process not in now.processes:
            late += 1
        before = place
    if following < len(launches) or late > MAX_LATE_LINES * len(launches):
        return [merged(launches)]
    _number_lines(file, launches, [count for piece in seen for count in piece.lines])
    return launches


def _first_line(file: Input, begin: int, end: int, processes: set[ProcessKey]) -> int:
    """Where the first line of these processes begins, of the lines from one place to another, which is theirs too."""
    for batch in read_range(file, begin, end):
        for place, match in prefixes_of(batch.block):
            if (match[1].decode(), int(match[2])) in processes:
                return batch.place + place
    return end  # the line at ``end`` itself


def _number_lines(file: Input, launches: Sequence[Part], counts: Sequence[tuple[int, int]]) -> None:
    """Give each launch the number of its first line."""
    places = [place for place, _ in counts]
    totals = list(accumulate((lines for _, lines in counts), initial=1))
    for launch in launches:
        block = bisect_right(places, launch.start) - 1
        inside = read_range(file, places[block], launch.start)
        launch.first_line = totals[block] + sum(batch.lines for batch in inside)
