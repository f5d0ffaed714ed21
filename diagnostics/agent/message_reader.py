"""Messages of an agent read back. They come from a node, which may be anybody's: every line is checked and bounded.

What is no message is left out and counted by its reason, so that one damaged line costs one line.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from diagnostics.agent.messages import Clock, Event, Message, Reading, Source, Warned, Watch
from diagnostics.agent.series import split_name
from diagnostics.errors import BadMessageError
from diagnostics.findings import Confidence, Evidence, Finding, Recommendation, Severity

MAX_LINE_BYTES = 1 << 20
MAX_VALUES = 8192  # 16 ports and 16 GPUs have a thousand
MAX_LISTED = 256
MAX_TEXT_CHARACTERS = 4096
MAX_NUMBER = 2.0**64  # the largest counter
MAX_SECONDS = 1e11  # of a clock: 3000 years
MAX_INTERVAL_SECONDS = 86_400.0
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold
_RULE_ID = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)


class MessageReader:
    """Messages from bytes as they come. ``refused`` counts what was left out, by reason."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._rest = b""
        self._skipping = False  # within a line that is too long

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """The messages that are complete with this chunk."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if self._skipping:
                self._skipping = False
                continue
            message = self._message(line)
            if message is not None:
                yield message
        if len(self._rest) > MAX_LINE_BYTES:
            if not self._skipping:
                self.refused["a line is too long"] += 1
            self._skipping, self._rest = True, b""

    def _message(self, line: bytes) -> Message | None:
        if not line.strip():
            return None
        try:
            return decode(line, self.refused)
        except BadMessageError as error:
            self.refused[str(error)] += 1
            return None


def decode(line: bytes | str, refused: Counter[str] | None = None) -> Message:
    """One line as a message. Raises BadMessageError. Values of a reading that are none are counted in ``refused``."""
    content = _object(line)
    kind = content.get("kind")
    if kind == Reading.kind:
        return _reading(content, Counter() if refused is None else refused)
    if not isinstance(kind, str) or kind not in _READERS:
        raise BadMessageError("unknown kind of message")
    return _READERS[kind](content)


def decode_watch(line: bytes | str) -> Watch:
    """What an agent is told. Raises BadMessageError."""
    content = _object(line)
    if content.get("kind") != Watch.kind:
        raise BadMessageError("unknown kind of message")
    pids = tuple(int(_within(pid, "pids")) for pid in _list(content, "pids"))
    return Watch(pids=pids, logs=_texts(content, "logs"))


def finding_of(content: object) -> Finding:
    """A finding from the dictionary that ``Finding.to_json`` gives, of the parts that an agent's has."""
    if not isinstance(content, dict):
        raise BadMessageError("finding is not an object")
    if not _RULE_ID.fullmatch(_text(content, "rule")):
        raise BadMessageError("rule is not an id")
    fields: dict[str, Any] = {key: _text(content, key) for key in ("rule", "summary", "explanation")}
    fields |= {
        "severity": _one_of(content, "severity", get_args(Severity)),
        "confidence": _one_of(content, "confidence", get_args(Confidence)),
        "hosts": _texts(content, "hosts"),
        "ranks": tuple(int(_within(rank, "ranks")) for rank in _list(content, "ranks")),
        "evidence": tuple(_evidence(one) for one in _list(content, "evidence")),
        "recommendations": tuple(_recommendation(one) for one in _list(content, "recommendations")),
    }
    return Finding(**fields)


def _object(line: bytes | str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise BadMessageError("a line is too long")
    try:
        content = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadMessageError("no JSON") from error
    if not isinstance(content, dict):
        raise BadMessageError("no JSON object")
    return content


def _clock(content: Mapping[str, Any]) -> Clock:
    return Clock(
        wall_seconds=_within(content.get("wall_seconds"), "wall_seconds", 0.0, MAX_SECONDS),
        monotonic_seconds=_time(content, "monotonic_seconds"),
        host=_text(content, "host"),
        interval_seconds=_within(content.get("interval_seconds"), "interval_seconds", 0.0, MAX_INTERVAL_SECONDS),
    )


def _source(content: Mapping[str, Any]) -> Source:
    available = content.get("available")
    if not isinstance(available, bool):
        raise BadMessageError("available is neither true nor false")
    return Source(
        monotonic_seconds=_time(content, "monotonic_seconds"),
        name=_text(content, "name"),
        available=available,
        reason=_text(content, "reason"),
    )


def _reading(content: Mapping[str, Any], refused: Counter[str]) -> Reading:
    values = content.get("values")
    if not isinstance(values, dict):
        raise BadMessageError("values is not an object")
    if len(values) > MAX_VALUES:
        raise BadMessageError("too many values in a reading")
    good: dict[str, float] = {}
    for name, value in values.items():
        try:
            split_name(name)
        except ValueError:
            refused["a series that is not in the table"] += 1
            continue
        try:
            good[name] = _within(value, "a value")
        except BadMessageError as error:
            refused[str(error)] += 1
    return Reading(monotonic_seconds=_time(content, "monotonic_seconds"), source=_text(content, "source"), values=good)


def _event(content: Mapping[str, Any]) -> Event:
    return Event(
        monotonic_seconds=_time(content, "monotonic_seconds"),
        source=_text(content, "source"),
        device=_text(content, "device"),
        text=_text(content, "text"),
    )


def _warned(content: Mapping[str, Any]) -> Warned:
    series = _texts(content, "series")
    for name in series:
        try:
            split_name(name)
        except ValueError as error:
            raise BadMessageError("series of a warning is not in the table") from error
    return Warned(
        monotonic_seconds=_time(content, "monotonic_seconds"),
        since_seconds=_number(content, "since_seconds"),
        finding=finding_of(content.get("finding")),
        series=series,
        line=_text(content, "line"),
    )


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    Clock.kind: _clock,
    Source.kind: _source,
    Event.kind: _event,
    Warned.kind: _warned,
}


def _evidence(content: object) -> Evidence:
    if not isinstance(content, dict):
        raise BadMessageError("evidence is not an object")
    return Evidence(
        file=_text(content, "file"), line=int(_within(content.get("line"), "line")), text=_text(content, "text")
    )


def _recommendation(content: object) -> Recommendation:
    if not isinstance(content, dict):
        raise BadMessageError("recommendation is not an object")
    return Recommendation(
        action=_text(content, "action"),
        text=_text(content, "text"),
        commands=_texts(content, "commands"),
        link=None if content.get("link") is None else _text(content, "link"),
    )


def _number(content: Mapping[str, Any], key: str) -> float:
    return _within(content.get(key), key)


def _time(content: Mapping[str, Any], key: str) -> float:
    return _within(content.get(key), key, -MAX_SECONDS, MAX_SECONDS)


def _within(value: object, what: str, least: float = -MAX_NUMBER, most: float = MAX_NUMBER) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadMessageError(f"{what} is not a number")
    if not least <= value <= most:
        raise BadMessageError(f"{what} is out of range")
    return value


def _text(content: Mapping[str, Any], key: str) -> str:
    return _bounded(content.get(key), key)


def _bounded(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise BadMessageError(f"{what} is not text")
    if len(value) > MAX_TEXT_CHARACTERS:
        raise BadMessageError(f"{what} is too long")
    if _SURROGATE.search(value):
        raise BadMessageError(f"{what} is not text")
    return value


def _texts(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(_bounded(one, key) for one in _list(content, key))


def _list(content: Mapping[str, Any], key: str) -> list[object]:
    value = content.get(key)
    if not isinstance(value, list):
        raise BadMessageError(f"{key} is not a list")
    if len(value) > MAX_LISTED:
        raise BadMessageError(f"{key} is too long")
    return value


def _one_of(content: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    value = content.get(key)
    if value not in allowed:
        raise BadMessageError(f"{key} is none of {', '.join(allowed)}")
    return str(value)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")
