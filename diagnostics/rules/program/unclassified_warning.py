"""NCCL warned about something that no rule knows.

Symptom: ``NCCL WARN`` with a text that is not in the tables of this program.

Why: a plugin, a patched library, or a message of a newer release.

Not when: a rule reports the line, or it is known noise of the teardown.

Source: none; the line is quoted so that it is not overlooked.
"""

from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where warnings matched no pattern."""
    events = facts.of("unclassified-warning")
    if not events:
        return CLEAR
    texts = {event.fields["text"][:60] for event in events}
    return found(
        conclude(
            facts,
            events,
            severity="info",
            confidence="possible",
            summary=(
                f"{facts.count('unclassified-warning')} warnings of NCCL that no rule explains ({len(texts)} kinds)"
            ),
            explanation="Read the quoted lines: they may be harmless, or the first sign of what went wrong.",
            occurrences=facts.count("unclassified-warning"),
        )
    )


RULE = Rule(
    id="unclassified-warning",
    title="Warnings that no rule explains",
    severity="info",
    actions=("show-network",),
    check=check,
)
