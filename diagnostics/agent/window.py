"""The last two minutes of every series: what rules look at. A window only holds what was read; it judges nothing."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from diagnostics.agent.messages import Event
from diagnostics.agent.series import SERIES, split_name

WINDOW_SECONDS = 130.0
STALE_SECONDS = 10.0  # more than three intervals of the sources that are read less often
MAX_SERIES = 8192
MAX_EVENTS = 256
LONG_SECONDS = 4 * 3600.0  # of what is looked at over hours, thinned
LONG_STEP_SECONDS = 10.0
_LONG = frozenset({("process", "resident_bytes")})


class Point(NamedTuple):
    """One value of a series."""

    seconds: float
    value: float


_point: Any = partial(tuple.__new__, Point)  # hundreds a second: a third of the time that ``Point(...)`` takes


@dataclass(slots=True)
class _Track:
    source: str
    points: deque[Point]
    long: deque[Point] | None
    is_counter: bool
    grown: float = float("-inf")  # when the value was last higher than before
    changed: float = float("-inf")  # when it was last another one

    def forget_misread(self, value: float) -> None:
        """A counter that was lower once and now is where it had been was read wrongly: 500, 0, 500 is no growth."""
        if self.is_counter and len(self.points) > 1 and self.points[-1].value < self.points[-2].value <= value:
            self.points.pop()

    def change(self, seconds: float, value: float) -> None:
        """It is not what it was."""
        self.forget_misread(value)
        before = self.points[-1].value
        if value != before:
            self.changed = seconds
            if value > before:
                self.grown = seconds


@dataclass(slots=True, kw_only=True)
class Window:
    """Series of one machine as they were read. ``pids`` are the processes of ranks; empty where none were named."""

    host: str
    interval_seconds: float = 1.0
    pids: frozenset[int] = frozenset()
    pids_ever: set[int] = field(default_factory=set)  # those that have ended, too
    now: float = 0.0
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MAX_EVENTS))
    series_left_out: int = 0
    unknown_series: str = ""  # the name of one that is not in the table
    _tracks: dict[str, _Track] = field(default_factory=dict)
    _devices: dict[tuple[str, str], dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    _read: dict[str, float] = field(default_factory=dict)  # when each source was last read

    def add(self, source: str, seconds: float, values: Mapping[str, float]) -> None:
        """Take in one reading."""
        self.now = max(self.now, seconds)
        self._read[source] = seconds
        for name, value in values.items():
            track = self._tracks.get(name)
            if track is None:
                if len(self._tracks) >= MAX_SERIES:
                    self.series_left_out += 1
                    continue
                try:
                    track = self._new_track(name, source)
                except ValueError:
                    self.unknown_series = name
                    continue
            elif value != track.points[-1][1]:
                track.change(seconds, value)
            point = _point((seconds, value))
            track.points.append(point)
            if track.long is not None and (not track.long or seconds - track.long[-1].seconds >= LONG_STEP_SECONDS):
                track.long.append(point)

    def _new_track(self, name: str, source: str) -> _Track:
        group, device, metric = split_name(name)
        length = max(int(WINDOW_SECONDS / self.interval_seconds), 8)
        long_length = int(LONG_SECONDS / LONG_STEP_SECONDS) if (group, metric) in _LONG else 0
        long = deque[Point](maxlen=long_length) if long_length else None
        counter = SERIES[group, metric].is_counter
        track = _Track(source, deque(maxlen=length), long, counter)
        self._tracks[name] = track
        self._devices[group, metric][device] = name
        return track

    def forget_vanished(self) -> None:
        """Drop the series that have not been there for the whole window."""
        for name, track in list(self._tracks.items()):
            if self.now - track.points[-1].seconds > WINDOW_SECONDS:
                group, device, metric = split_name(name)
                del self._tracks[name]
                del self._devices[group, metric][device]

    def devices(self, group: str, metric: str) -> Mapping[str, str]:
        """The name of the series of each device that has had the metric within the window."""
        return self._devices.get((group, metric), {})

    def points(self, name: str, seconds: float) -> Sequence[Point]:
        """What was read of a series in the last seconds, oldest first; empty where it is missing."""
        track = self._tracks.get(name)
        if track is None:
            return ()
        since = self.now - seconds
        found = []
        for point in reversed(track.points):
            if point.seconds < since:
                break
            found.append(point)
        return found[::-1]

    def long_points(self, name: str) -> Sequence[Point]:
        """One value each ten seconds over hours, of the series that are kept so long."""
        track = self._tracks.get(name)
        return () if track is None or track.long is None else tuple(track.long)

    def latest(self, name: str) -> float | None:
        """The value now; None where the series is missing or its source silent."""
        track = self._tracks.get(name)
        if track is None or self._missing(track):
            return None
        return track.points[-1].value

    def vanished(self, name: str) -> bool:
        """Whether its device was there, and is missing from what the source has read since, three times at least.

        A device of which any series is read is there: one file or call of it may fail for a while.
        """
        track = self._tracks.get(name)
        if track is None or self._read[track.source] - track.points[-1].seconds <= 2.5 * self.interval_seconds:
            return False
        group, device, _ = split_name(name)
        of_device = [one for one in self._of(group, device) if one.source == track.source]
        last = max(one.points[-1].seconds for one in of_device)
        return self._read[track.source] - last > 2.5 * self.interval_seconds

    def _of(self, group: str, device: str) -> Iterable[_Track]:
        """All series of a device."""
        return (self._tracks[by[device]] for (of, _), by in self._devices.items() if of == group and device in by)

    def growing(self, group: str, metric: str, seconds: float) -> Iterable[tuple[str, str]]:
        """Device and name of the counters that have grown within the last seconds."""
        since = self.now - seconds
        return [
            (device, name) for device, name in self.devices(group, metric).items() if self._tracks[name].grown >= since
        ]

    def changed(self, name: str, seconds: float) -> bool:
        """Whether the value became another one within the last seconds."""
        track = self._tracks.get(name)
        return track is not None and track.changed >= self.now - seconds

    def increase(self, name: str, seconds: float) -> float:
        """By how much a counter grew within the last seconds. What it lost by a reset or a wrap counts as nothing."""
        points = self.points(name, seconds)
        steps = pairwise(points)
        return sum(max(after.value - before.value, 0) for before, after in steps)

    def grew_since(self, name: str, seconds: float) -> float:
        """When the first growth within the last seconds was seen; now where there was none."""
        points = self.points(name, seconds)
        steps = pairwise(points)
        return next((after.seconds for before, after in steps if after.value > before.value), self.now)

    def rate(self, name: str, seconds: float) -> float | None:
        """Growth per second of a counter; None unless readings cover two thirds of the time."""
        points = self.points(name, seconds)
        if len(points) < 2 or points[-1].seconds - points[0].seconds < seconds * 2 / 3:
            return None
        return self.increase(name, seconds) / (points[-1].seconds - points[0].seconds)

    def held(self, name: str, seconds: float) -> bool:
        """Whether a flag has been 1 in every reading since so many seconds ago."""
        return self.latest(name) == 1 and self.now - self.held_since(name) >= seconds

    def covers(self, name: str, seconds: float) -> bool:
        """Whether readings cover nine tenths of the last seconds."""
        points = self.points(name, seconds)
        return bool(points) and points[-1].seconds - points[0].seconds >= 0.9 * seconds

    def held_since(self, name: str) -> float:
        """Since when a value has been the one that it is now, as far as the window goes."""
        points = self.points(name, WINDOW_SECONDS)
        since = self.now
        for point in reversed(points):
            if point.value != points[-1].value:
                break
            since = point.seconds
        return since

    def first_seconds(self, name: str) -> float:
        """When the series was first read within the window."""
        track = self._tracks.get(name)
        return self.now if track is None else track.points[0].seconds

    def last_seconds(self, name: str) -> float:
        """When the series was last read."""
        track = self._tracks.get(name)
        return self.now if track is None else track.points[-1].seconds

    def recent_events(self, seconds: float) -> Sequence[Event]:
        """What was said in the last seconds, oldest first."""
        return [event for event in self.events if event.monotonic_seconds >= self.now - seconds]

    def last_word(self, source: str, device: str) -> str:
        """What a source last said of a device; empty where it said nothing."""
        return next((one.text for one in reversed(self.events) if (one.source, one.device) == (source, device)), "")

    def _missing(self, track: _Track) -> bool:
        last = track.points[-1].seconds
        return self._read[track.source] > last or self.now - last > max(STALE_SECONDS, 3 * self.interval_seconds)
