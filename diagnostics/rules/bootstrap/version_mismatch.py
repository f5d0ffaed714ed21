"""NCCL versions differ, between ranks or between the program and the library that it loads.

Symptom: ``Mismatched NCCL version detected``, or processes that print different versions; ``NCCL library is too old.
This application was compiled with NCCL version ...``.

Why: nodes with different images, or a library path that finds another NCCL on one of them. Protocols differ, so ranks
hang or get truncated messages.

Not when: the raw banner of one process and PyTorch's own text are spelt differently; an NCCL of a patch by a vendor
has a suffix.

Source: NCCL's init.cc (check since 2.23).
"""

from collections import defaultdict

from diagnostics.events import Event
from diagnostics.facts import JobFacts, version_numbers
from diagnostics.findings import Finding
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed, stopped_at

_WORDINGS = {  # of one message each, none of which a release prints beside the other of its pair
    r"NET/Plugin ?: Plugin load \(": "2.17 to 2.18",
    r"NET/Plugin ?: dlerror=": "2.19 to 2.20",
    r"NET/Plugin: Could not find: ": "2.22 and newer",
    r"\bBootstrap : Using ": "releases to 2.23",
    r"\bBootstrap: Using ": "2.24 and newer",
}
_APART = (
    ("2.17 to 2.18", "2.19 to 2.20"),
    ("2.17 to 2.18", "2.22 and newer"),
    ("2.19 to 2.20", "2.22 and newer"),
    ("releases to 2.23", "2.24 and newer"),
)


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL says so, or where prefixed banners of processes differ in their numbers."""
    if old := stopped_at(facts, "library-too-old"):
        return found(_compiled_for_another(facts, old))
    stated = [event for event in facts.of("version-mismatch") if event.origin.level != "INFO" or "RAS" in event.text]
    if stated:
        fields = stated[0].fields
        pair = " and ".join(
            _readable(fields[name]) for name in ("version", "other_version", "local", "remote") if name in fields
        )
        return found(
            conclude(
                facts,
                stated,
                severity="critical",
                summary=f"NCCL versions differ between ranks{': ' + pair if pair else ''}",
                explanation="Ranks of one job must run one NCCL. Use one image or one library path on every node.",
                occurrences=facts.count("version-mismatch"),
            )
        )
    hosts: dict[tuple[int, int, int], set[str]] = defaultdict(set)
    for event in facts.of("version"):
        if number := version_numbers(event.fields["version"]):
            hosts[number].update({event.origin.host} if event.origin.host else ())
    for process in facts.processes.values():
        for text in process.versions:
            if number := version_numbers(text):
                hosts[number].add(process.host)
    if len(hosts) < 2 or facts.multi_node is False:
        return _by_wording(facts)
    few = min(hosts.values(), key=len)
    events = facts.of("version")
    shown = {version_numbers(event.fields["version"]): event for event in reversed(events)}
    return found(
        conclude(
            facts,
            list(shown.values()),
            severity="critical",
            confidence="likely",
            summary=(
                "NCCL versions differ between processes: "
                f"{listed('.'.join(map(str, number)) for number in sorted(hosts))}"
            ),
            explanation="Ranks of one job must run one NCCL; different versions hang or fail while they connect.",
            hosts=few,
        )
    )


def _compiled_for_another(facts: JobFacts, events: list[Event]) -> Finding:
    """The program asks the library for what only another release has."""
    return conclude(
        facts,
        events,
        severity="critical",
        summary=f"The program was built with another NCCL than it runs with: {events[0].fields['text'][:140]}",
        explanation="The loader found another libnccl than the one that the program was built with: an older one of "
        "the system, of the image, or of a Python package.",
        actions=("matching-library", "same-version"),
    )


def _by_wording(facts: JobFacts) -> Outcome:
    """Hosts that say the same in the words of different releases, where not all of them name theirs."""
    said: dict[str, dict[str, Event]] = defaultdict(dict)
    for event in facts.of("plugin-absent", "bootstrap-interface"):
        for wording, releases in _WORDINGS.items():
            if event.origin.host and compiled(wording).search(event.text):
                said[event.origin.host].setdefault(releases, event)
    spoken = {releases for by_release in said.values() for releases in by_release}
    pair = next((pair for pair in _APART if spoken.issuperset(pair)), None)
    if pair is None or facts.multi_node is False or any(by_release.keys() >= set(pair) for by_release in said.values()):
        return CLEAR
    shown = [next(by_release[one] for by_release in said.values() if one in by_release) for one in pair]
    return found(
        conclude(
            facts,
            shown,
            severity="critical",
            confidence="likely",
            summary=f"NCCL versions differ between hosts: one prints what {pair[0]} print, another what {pair[1]} do",
            explanation="Ranks of one job must run one NCCL; different versions hang or fail while they connect.",
        )
    )


def _readable(text: str) -> str:
    """``22304`` as ``2.23.4``: major * 10000 + minor * 100 + patch."""
    if text.isdigit() and len(text) == 5:
        return f"{int(text) // 10000}.{int(text) // 100 % 100}.{int(text) % 100}"
    return text


RULE = Rule(
    id="version-mismatch",
    title="NCCL versions differ",
    severity="critical",
    actions=("same-version",),
    check=check,
)
