"""NCCL sees a poor topology inside the machine.

Symptom: ``Pattern 4, ... nChannels 1, ... type SYS/SYS``; ``Could not find a path for pattern 4``; a topology file
that cannot be read or that was made for another machine; few channels.

Why: GPUs and NICs hang on different sockets, a virtual machine hides the PCIe switches, a link runs narrow, or
NCCL_TOPO_FILE replaces what NCCL would have found.

Not when: the file is the one of the cloud's image or of a plugin (Azure, AWS); the patterns of NVLS and CollNet find
no channel (0 channels is normal there); a virtual NIC has no PCI path.

Source: NCCL's graph/search.cc; user guide, NCCL_TOPO_FILE.
"""

from dataclasses import replace

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, stopped_at

_ABSENT = "NCCL goes on with what it detects; inside virtual machines that hides which GPU and NIC are near."
_STOPS = "It is damaged, cut, or of another release, and NCCL stops there. Unset the variable, or write the file anew."
_OF_THE_PLATFORM = r"^/(?:opt|etc|usr|var/run|run)/|aws-ofi-nccl|/microsoft/|gpudirect|nvidia-topologyd"


def check(facts: JobFacts) -> Outcome:
    """Found where the search failed, a file is bad or foreign and the result poor, or the ring crosses processors."""
    bad = [event for event in facts.of("topology-file-bad") if "plugin" not in event.text.lower()]
    if named := _named_and_unread(facts):
        return found(_conclude(facts, named, "The topology file that NCCL_TOPO_FILE names cannot be opened", _ABSENT))
    if lost := stopped_at(facts, "topology-unusable"):
        return found(_unusable(facts, lost))
    failed = [event for event in facts.of("search-failed") if event.fields["pattern"] == "4"]
    claimed = facts.of("topology-claimed")
    if fatal := [event for event in bad if "fatal" in event.fields and not facts.survived(event)]:
        return found(
            replace(
                _conclude(facts, fatal, "NCCL cannot use the file that its topology or graph is read from", _STOPS),
                severity="critical",
                blocks=True,
            )
        )
    if bad and any(event.origin.level == "WARN" for event in bad):
        return found(
            _conclude(facts, bad, "The topology file cannot be used", "NCCL goes on with what it detects, or stops.")
        )
    if failed or claimed:
        events = failed or claimed
        return found(
            _conclude(facts, events, "NCCL found no good path through the machine", "It falls back to a simple order.")
        )
    return _from_search(facts)


def _unusable(facts: JobFacts, events: list[Event]) -> Finding:
    """NCCL found no sense in the GPUs, NICs and links that it was told of."""
    return conclude(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"NCCL cannot make sense of the machine's topology: {events[0].fields['text'][:140]}",
        explanation="What /sys, the driver or a topology file tells of GPUs, NICs and links does not fit together: a "
        "file of another machine, a virtual machine or container that hides a part, or a machine newer than this NCCL.",
        blocks=True,
    )


def _from_search(facts: JobFacts) -> Outcome:
    rings = [event for event in facts.of("search-result") if event.fields["pattern"] == "4"]
    crossing = [event for event in rings if event.fields["intra"] == "SYS"]
    one_each = facts.world_size is not None and facts.world_size == facts.node_count  # a GPU and its NIC fill no more
    few = [event for event in rings if event.number("channels") == 1 and not one_each]
    own = _own_files(facts)
    if own and (crossing or few or (_few_channels(facts) and not one_each)):
        return found(
            _conclude(
                facts,
                [own[0], *(few or crossing or facts.of("channel-count"))[:2]],
                f"A topology file replaces what NCCL detects ({_file(own[0])}), and the result is poor",
                (
                    "The rings have very few channels. A file for another machine, or edited by hand, hides links "
                    "that are there."
                ),
            )
        )
    if crossing and facts.multi_node is not None and any(event.fields["intra"] == "NVL" for event in rings):
        return found(
            _conclude(
                facts,
                crossing,
                "On some ranks the ring crosses processors although others have NVLink",
                "These machines, or their visible devices, differ from the others.",
            )
        )
    return CLEAR


def _named_and_unread(facts: JobFacts) -> list[Event]:
    """The variable's line and NCCL's about the same file. Its own default, which seldom exists, is named by nobody."""
    named = {event.fields["value"].rstrip("."): event for event in _variables(facts)}
    unread = [event for event in facts.of("topology-file-bad") if event.fields.get("file") in named]
    return [named[unread[0].fields["file"]], *unread] if unread else []


def _variables(facts: JobFacts) -> list[Event]:
    return [event for event in facts.of("variable") if event.fields["name"] in ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE")]


def _own_files(facts: JobFacts) -> list[Event]:
    return [
        event
        for event in [*_variables(facts), *facts.of("topology-file")]
        if not compiled(_OF_THE_PLATFORM).search(_file(event))
    ]


def _file(event: Event) -> str:
    return event.fields.get("file") or event.fields.get("value", "")


def _few_channels(facts: JobFacts) -> bool:
    counts = [event.number("channels") or 0 for event in facts.of("channel-count")]
    return bool(counts) and max(counts) <= 2


def _conclude(facts: JobFacts, events: list[Event], summary: str, explanation: str) -> Finding:
    return conclude(
        facts,
        events,
        severity="warning",
        confidence="likely",
        summary=summary,
        explanation=explanation,
        occurrences=len(events),
    )


RULE = Rule(
    id="topology-degraded",
    title="A poor topology inside the machine",
    severity="warning; critical where NCCL stops at the file",
    actions=("fix-topology-file", "check-distance"),
    done_without=("topology-file-bad",),
    check=check,
    slow=True,
)
