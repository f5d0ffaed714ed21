"""The reports of documents that are names and figures: an estimate, an expectation, a plan, a summary. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from raybench.documents.diagnosis import Diagnosis
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.findings import finding_blocks
from raybench.reports.facts import facts_of
from raybench.reports.findings import network_facts, ordered
from raybench.reports.findings_in_short import findings_view
from raybench.reports.model import Block, Facts, Heading, Report


def figures_report(document: Any, _: Asked) -> Report:
    """Every figure by its name, those of one part below its title."""
    content = document.to_json()
    name = document.SCHEMA.partition("/")[0].replace(".", " ").replace("_", " ").replace("-", " ")
    verdict: str = getattr(document, "verdict", None) or ""  # a plan without a simulation has none, others none at all
    return Report(name=name, title=name, verdict=verdict, reason="", lead="", when="", blocks=tuple(_blocks(content)))


def _blocks(content: Mapping[str, Any]) -> Iterator[Block]:
    parts = {name: value for name, value in content.items() if isinstance(value, Mapping) and value}
    own = facts_of({name: value for name, value in content.items() if name not in parts})
    yield Facts(pairs=own)
    for name, part in parts.items():
        yield Heading(text=name.replace("_", " ").capitalize())
        yield Facts(pairs=facts_of(part))


def diagnosis_report(diagnosis: Diagnosis, _: Asked) -> Report:
    """What the logs say of the network, then the findings."""
    found = findings_view(ordered(diagnosis.findings))
    blocks = (Facts(pairs=network_facts(diagnosis)), Heading(text="Findings"), *finding_blocks(found))
    verdict, name = diagnosis.verdict, "raybench diagnose"
    summaries = [one.summary or one.rule for one in found.shown if one.severity != "info"]
    reason = summaries[0] if summaries else diagnosis.in_brief.partition(", ")[2]
    return Report(
        name=name, title=f"{name}: {verdict}", verdict=verdict, reason=reason, lead="", when="", blocks=blocks
    )
