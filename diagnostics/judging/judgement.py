"""Facts to a diagnosis: ask every rule, fold consequences under their cause, add what to do about each."""

from collections.abc import Iterable
from dataclasses import replace

from diagnostics import transport
from diagnostics.events import MAX_QUOTED_CHARACTERS, quote
from diagnostics.facts import JobFacts
from diagnostics.findings import CannotTell, Diagnosis, Finding, LineCounts
from diagnostics.judging.consequences import fold_consequences, lower_explained
from diagnostics.judging.decisive import raise_decisive
from diagnostics.judging.leading import with_reason_first
from diagnostics.judging.rank_table import missing_ranks, rank_rows
from diagnostics.judging.recommendations import Setting, recommend, setting_of
from diagnostics.judging.restarts import last_attempt
from diagnostics.judging.survival import lower_survived
from diagnostics.judging.timeline import behind_causes, in_time_order
from diagnostics.judging.verdict import explanation_of, not_shown_beside, open_question, verdict_on
from diagnostics.rules import load_rules
from diagnostics.rules.base import OMITTED, Rule

_BROKEN = "error in the rule"


def diagnose_facts(facts: JobFacts, lines: LineCounts) -> Diagnosis:
    """The diagnosis of facts that were already collected."""
    facts = last_attempt(facts)
    findings, clear, unsure = ask_rules(facts, load_rules())
    findings = lower_survived(raise_decisive(in_time_order(findings), facts), facts)
    findings = behind_causes(findings, {rule.id: rule.victim_of for rule in load_rules() if rule.victim_of})
    setting = setting_of(facts)
    findings = lower_explained(findings, {rule.id: rule.explained_by for rule in load_rules() if rule.explained_by})
    folded = fold_consequences(
        findings,
        {rule.id: rule.consequence for rule in load_rules() if rule.consequence},
        frozenset(rule.id for rule in load_rules() if rule.slow),
    )
    finished = [_finish(finding, setting) for finding in folded]
    network = transport.job_network(facts)
    split = any(finding.rule == "host-identity-mismatch" for finding in finished)
    verdict = verdict_on(finished, network, facts)
    question = open_question(network, finished, facts) if verdict == "unknown" else None
    shown = [_finish(finding, setting) for finding in with_reason_first(folded, verdict, question, facts)]
    told = {finding.rule for finding in shown}
    diagnosis = Diagnosis(
        verdict=verdict,
        explanation=explanation_of(verdict, network, finished, facts),
        not_shown=not_shown_beside(verdict, network, facts),
        network=network,
        gdr=transport.gpu_direct(facts),
        tcp_fallback=transport.tcp_fallback(facts, split_machine=split),
        nccl_versions=facts.versions,
        world_size=facts.world_size,
        nodes=facts.node_count,
        ranks=rank_rows(facts),
        missing_ranks=missing_ranks(facts),
        findings=tuple(shown),
        rules_clear=tuple(rule for rule in clear if rule not in told),
        rules_cannot_tell=tuple(unsure),
        lines=lines,
        counters=_counters(facts),
        notes=tuple(facts.notes),
    )
    return _nothing_cleared(diagnosis) if diagnosis.empty else _with_open_start(_with_broken_rules(diagnosis))


def _with_open_start(diagnosis: Diagnosis) -> Diagnosis:
    """Where ranks began a communicator and it cannot be told whether they hang there, the log is not shown to be fine.

    In a log whose later starts are left out, that a completion is not read tells nothing.
    """
    open_ = [one.why for one in diagnosis.rules_cannot_tell if one.rule == "init-hang" and one.why != OMITTED]
    if not open_ or diagnosis.verdict != "ok":
        return diagnosis
    return replace(diagnosis, verdict="unknown", explanation=f"No problem is shown, but {open_[0]}.")


def _with_broken_rules(diagnosis: Diagnosis) -> Diagnosis:
    """Where a rule broke, nobody has looked for what it finds, so that the log is not shown to be fine."""
    broken = [unsure for unsure in diagnosis.rules_cannot_tell if unsure.why.startswith(_BROKEN)]
    if not broken or diagnosis.verdict != "ok":
        return diagnosis
    told = f"No problem is shown, but the rule {broken[0].rule} could not be asked: {quote(broken[0].why)}"
    return replace(diagnosis, verdict="unknown", explanation=f"{told}.")


def _nothing_cleared(diagnosis: Diagnosis) -> Diagnosis:
    """Where nothing was read that a rule could have found anything in, none of them has found that all is well."""
    told = {unsure.rule for unsure in diagnosis.rules_cannot_tell}
    open_ = [
        CannotTell(rule=rule, why="no line of NCCL was read") for rule in diagnosis.rules_clear if rule not in told
    ]
    return replace(diagnosis, rules_clear=(), rules_cannot_tell=(*diagnosis.rules_cannot_tell, *open_))


def ask_rules(facts: JobFacts, rules: Iterable[Rule]) -> tuple[list[Finding], list[str], list[CannotTell]]:
    """Findings, rules that are clear, and rules that cannot tell."""
    findings: list[Finding] = []
    clear: list[str] = []
    unsure: list[CannotTell] = []
    for rule in rules:
        try:
            outcome = rule.check(facts)
        except Exception as error:  # noqa: BLE001 - one faulty rule must not take the others with it
            unsure.append(CannotTell(rule=rule.id, why=f"{_BROKEN}: {type(error).__name__}: {error}; please report it"))
            continue
        findings += [
            replace(finding, rule=rule.id, actions=finding.actions or rule.actions) for finding in outcome.findings
        ]
        if outcome.cannot_tell:
            unsure.append(CannotTell(rule=rule.id, why=outcome.cannot_tell))
        elif not outcome.findings:
            clear.append(rule.id)
    return findings, clear, unsure


def _finish(finding: Finding, setting: Setting) -> Finding:
    """The finding with its recommendations, and with control characters in text of the log escaped."""
    return replace(
        finding,
        summary=quote(finding.summary),
        explanation=quote(finding.explanation)
        if len(finding.explanation) < MAX_QUOTED_CHARACTERS
        else finding.explanation,
        hosts=tuple(quote(host)[:120] for host in finding.hosts),
        evidence=tuple(replace(evidence, file=quote(evidence.file)) for evidence in finding.evidence),
        victims=tuple(replace(evidence, file=quote(evidence.file)) for evidence in finding.victims),
        recommendations=recommend(finding.actions, setting),
    )


def _counters(facts: JobFacts) -> dict[str, object]:
    """Channels by transport, and the share of network channels with GPUDirect RDMA."""
    channels: dict[str, int] = {}
    for channel in facts.channels:
        channels[channel.transport] = channels.get(channel.transport, 0) + channel.count
    data = transport.data_channels(facts)
    total = sum(channel.count for channel in data)
    direct = sum(channel.count for channel in data if channel.gdr)
    return {
        "channels": channels,
        "gdr_channel_share": direct / total if total else None,
        "ofi_providers": sorted({str(event.fields["provider"]) for event in facts.of("ofi-provider")}),
        "files": len(facts.files),
        "flight_records": len(facts.flight_records),
        "nccl_lines_estimated": False,  # they are counted; the key is of the contract
    }
