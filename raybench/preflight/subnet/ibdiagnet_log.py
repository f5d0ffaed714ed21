"""``ibdiagnet2.log``, which is also what ``ibdiagnet`` prints: stages, and a line for each thing it finds wrong."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from raybench.preflight.subnet.facts import Aspect, Complaint, Kind, PortFacts, PortKey, Told, counter_name, guid_of

_LINE = re.compile(r"\s*-([EWI])- +(\S.*?)\s*$")
_FINISHED = re.compile(r"(.+?) finished (?:successfully|with (?:errors|warnings))\b.*")
_SUMMARY_ROW = re.compile(r"(\S.*?) {2,}(\d{1,9}) +(\d{1,9})\b.*")
_GROWN = re.compile(r'(\S+) *- *"(\w+)" increased during the run \(difference value=(\d{1,20})')
_PORT_OF_COUNTERS = re.compile(r"lid=\S+ dev=\S+ (\S+)")
_COUNTER = re.compile(r"\s+(\w+) +: (\d{1,20})\b")
_LINK = re.compile(r"Link: *(\S+?)(?:<-->(\S+))? +- +(.*)")
_BY_GUID = re.compile(r"S[0-9a-f]{1,16}/N([0-9a-f]{1,16})/P?(\d{1,4})", re.IGNORECASE)
_BY_NAME = re.compile(r"([^\s\"(]+)/P(\d{1,4})\b")
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("duplicated-guid", re.compile(r"\bguid\b.*duplicat|duplicat\w* (?:\w+ )*guid", re.IGNORECASE)),
    ("bit-errors", re.compile(r"\bBER\b")),
    ("link-rate", re.compile(r"\b(?:link |actual )(?:speed|width)\b|(?:speed|width) is different", re.IGNORECASE)),
    ("port-down", re.compile(r"\bin INIT?\b|logical state|bad link|unresponsive|not respon", re.IGNORECASE)),
)
_MILD = re.compile(r"\bFW version|firmware|node description", re.IGNORECASE)
_STAGES: tuple[tuple[Aspect, re.Pattern[str]], ...] = (
    ("GUIDs", re.compile(r"duplicated guids?|^discovery", re.IGNORECASE)),
    ("link state", re.compile(r"links (?:check|in init)", re.IGNORECASE)),
    ("link rate", re.compile(r"(?:speed|width)", re.IGNORECASE)),
    ("error counters", re.compile(r"ports? counters", re.IGNORECASE)),
    ("bit errors", re.compile(r"\bBER\b")),
)
_MOST_COMPLAINTS = 100_000


def is_ibdiagnet_log(text: str) -> bool:
    """Whether a text is one: stages that finished, or the summary of them."""
    stages = r"^[ \t]*-[EWI]- .*(?:finished (?:success|with)|Stage +Warnings +Errors)"
    return bool(re.search(stages, text, re.MULTILINE))


@dataclass(slots=True)
class _Reading:
    """What was read until now. ``stage`` is the one whose lines follow, ``bad`` those that found something."""

    ports: list[PortFacts] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)
    covers: set[Aspect] = field(default_factory=set)
    bad: dict[str, tuple[int, bool]] = field(default_factory=dict)
    explained: set[str] = field(default_factory=set)
    stage: str = ""
    counted: PortKey | None = None
    in_summary: bool = False


def parse_ibdiagnet_log(text: str) -> Told:
    """Samples (2.1 and 2.x)::

    -E- Links Speed Check finished with errors
    -E- Link: S7cfe900300a51030/N7cfe900300a51030/P28<-->ime2/U1/P1 - Unexpected actual link speed 14
    -E- r9i1n24/U1/P1 - "port_rcv_errors" increased during the run (difference value=117,...)
    """
    reading = _Reading()
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.match(line)
        if match is None:
            _plain(reading, line, number)
        elif len(reading.complaints) < _MOST_COMPLAINTS:
            reading.counted = None
            _told(reading, match[1], match[2], number)
    reading.complaints += _unexplained(reading)
    return Told(ports=tuple(reading.ports), complaints=tuple(reading.complaints), covers=frozenset(reading.covers))


def _plain(reading: _Reading, line: str, number: int) -> None:
    """A line that has no grade: a heading, or a counter of the port that was named before."""
    counter = _COUNTER.match(line) if reading.counted else None
    name = counter_name(counter[1]) if counter else ""
    if counter and name and reading.counted is not None:
        reading.ports.append(_facts(reading.counted, number, {name: int(counter[2])}, {}))
    elif line.strip() == "Summary":
        reading.in_summary = True
    elif line.startswith("---"):
        reading.in_summary, reading.counted = False, None


def _told(reading: _Reading, grade: str, said: str, number: int) -> None:
    row = _SUMMARY_ROW.fullmatch(said) if reading.in_summary else None
    finished = _FINISHED.fullmatch(said)
    if row:
        _stage(reading, row[1], number, int(row[3]) > 0, int(row[2]) + int(row[3]) > 0)
    elif finished:
        reading.stage = finished[1]
        _stage(reading, finished[1], number, grade == "E", grade != "I")
    elif grade != "I" and not reading.in_summary:
        reading.explained |= {_words(reading.stage), *_aspects(reading.stage)}
        _complaint(reading, grade == "E", said, number)


def _stage(reading: _Reading, name: str, number: int, grave: bool, bad: bool) -> None:
    reading.covers |= {"alarms", *_aspects(name)}
    if bad:
        reading.bad.setdefault(name, (number, grave))


def _aspects(stage: str) -> set[Aspect]:
    return {aspect for aspect, expression in _STAGES if expression.search(stage)}


def _words(stage: str) -> str:
    return re.sub(r"\s*[Cc]hecks?\b.*", "", stage).strip().lower()


def _complaint(reading: _Reading, grave: bool, said: str, number: int) -> None:
    grown, counted = _GROWN.match(said), _PORT_OF_COUNTERS.match(said)
    if grown:
        name = counter_name(grown[2])
        for key in _keys(grown[1]) if name else ():
            reading.ports.append(_facts(key, number, {}, {name: int(grown[3])}))
    elif counted:
        reading.counted = next(iter(_keys(counted[1])), None)
    else:
        kind: Kind = next((one for one, expression in _KINDS if expression.search(said)), "fabric-alarm")
        link = _LINK.match(said)
        places = [one for one in (link[1], link[2]) if one] if link else said.split()
        ports = tuple(key for place in places for key in _keys(place))[:2]
        reading.complaints.append(
            Complaint(
                kind=kind,
                text=link[3] if link and ports else said,
                grave=grave and not _MILD.search(said),
                ports=ports,
                line=number,
            )
        )


def _keys(place: str) -> Iterator[PortKey]:
    """``Se41d2d03004bcfb0/Ne41d2d03004bcfb0/P20`` or ``r9i1n24/U1/P1``; nothing for a word that is no port."""
    guids = _BY_GUID.match(place)
    named = _BY_NAME.match(place)
    if guids:
        yield PortKey(node=guid_of(guids[1]), port=guids[2])
    elif named:
        yield PortKey(node=named[1], port=named[2])


def _facts(key: PortKey, line: int, counters: dict[str, int], grown: dict[str, int]) -> PortFacts:
    node = "" if key.node.startswith("0x") else key.node
    return PortFacts(key=key, node=node, line=line, counters=counters, grown=grown)


def _unexplained(reading: _Reading) -> Iterable[Complaint]:
    """Stages that found something, and no line says what: their details are in another file."""
    told = {one for one in reading.explained if one}
    for stage, (line, grave) in reading.bad.items():
        own = _words(stage)
        if not _aspects(stage) & told and not any(own in one or one in own for one in told):
            text = f"stage {stage!r} found something wrong, and no line of this file says what"
            yield Complaint(kind="fabric-alarm", text=text, grave=grave, line=line)
