"""Tables of nccl-tests and its like that a log begins or leaves without an end: the next size may hang."""

from diagnostics.events import quote
from diagnostics.facts import JobFacts
from diagnostics.parsers.steps import is_last_row


def begun_table(facts: JobFacts) -> str:
    """What is said of a table of nccl-tests of which no row stands behind its title; empty where there is none."""
    ends = {event.origin.file: event.origin.sequence for event in facts.of("work-done", "tests-ended", "run-error")}
    begun = {event.origin.file: event for event in facts.of("tests-range", "tests-title")}
    for file, event in begun.items():
        last = facts.last_lines.get(file, 0)
        measured = any(last - step.behind > event.origin.line for step in facts.done_steps.get(file, ()))
        if ends.get(file, -1) < event.origin.sequence and not measured:
            return (
                f"line {event.origin.line} of {file} begins a table of nccl-tests, and no row of it is there: "
                "it hangs at its first size, or the log is cut. Give all that the program printed."
            )
    return ""


def cut_tables(facts: JobFacts) -> frozenset[str]:
    """Files whose last rows may not be the last of their table: it may have come to a halt there."""
    if (sizes := facts.of("tests-range")) and len(facts.files) == 1:
        largest, factor, increment = (sizes[-1].number(name) or 0 for name in ("largest", "factor", "increment"))
        return frozenset(
            file for file, row in facts.open_tables.items() if not is_last_row(row, largest, factor, increment)
        )
    return frozenset(facts.open_tables)


def cut_table(facts: JobFacts) -> str:
    """What is said of a log that shows rows of a table, and not its end; empty where there is none."""
    if not (cut := sorted(cut_tables(facts))):
        return ""
    row = quote(facts.open_tables[cut[0]])[:120]
    return (
        f"{cut[0]} ends with rows of a table of measurements, {row}, and not with the end "
        "of the table: one that hangs at its next size looks the same. Give all that the program printed."
    )
