"""Findings of a run or of a diagnosis as blocks: what it means, where, what to do, the lines that show it. Pure."""

from collections.abc import Iterator

from diagnostics.findings import Finding as Found
from raybench.reports.findings import headline, place
from raybench.reports.findings_in_short import FindingsView, evidence_view
from raybench.reports.model import Block, Details, Finding, Preformatted, Text, notes_of

_ADDRESSES = ("https://", "http://")


def finding_blocks(view: FindingsView) -> Iterator[Block]:
    """Those that are shown, and a line on each kind of which there are more."""
    for found in view.shown:
        yield Finding(severity=found.severity, headline=headline(found), blocks=tuple(_blocks(found)))
    if not view.shown:
        yield Text(text="None.")
    yield from notes_of(view.omitted)


def _blocks(found: Found) -> Iterator[Block]:
    if found.explanation:
        yield Text(text=found.explanation)
    if place(found):
        yield Text(text=place(found), tone="soft")
    for recommendation in found.recommendations:
        link = recommendation.link or ""
        yield Text(text=recommendation.text, link=link if link.startswith(_ADDRESSES) else "")
        yield from (Preformatted(text=command) for command in recommendation.commands)
    lines, more = evidence_view(found)
    if lines:
        shown = (f"{one.file}:{one.line}  {one.text}" for one in lines)
        rest = (Text(text=more, tone="soft"),) if more else ()
        yield Details(summary="Evidence", blocks=(*(Preformatted(text=line) for line in shown), *rest))
