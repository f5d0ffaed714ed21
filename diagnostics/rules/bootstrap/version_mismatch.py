"""NCCL versions differ between ranks.

Symptom: ``Mismatched NCCL version detected``, or processes that print different versions.

Why: nodes with different images, or a library path that finds another NCCL on one of them. Protocols differ, so ranks
hang or get truncated messages.

Not when: the raw banner of one process and PyTorch's own text are spelt differently; an NCCL of a patch by a vendor
has a suffix.

Source: NCCL's init.cc (check since 2.23).
"""

from collections import defaultdict

from diagnostics.facts import JobFacts, version_numbers
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, listed


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL says so, or where prefixed banners of processes differ in their numbers."""
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
        return CLEAR
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
