"""Logs to a diagnosis: read, scan, collect facts, ask every rule, fold consequences under their cause."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from diagnostics import flight_recorder, transport
from diagnostics.builder import FactBuilder
from diagnostics.errors import UnreadableInputError
from diagnostics.events import MAX_QUOTED_CHARACTERS, quote
from diagnostics.facts import FlightRecord, JobFacts
from diagnostics.findings import (
    SEVERITY_ORDER,
    CannotTell,
    Diagnosis,
    Evidence,
    Finding,
    LineCounts,
    RankRow,
    Verdict,
)
from diagnostics.reader import Batch, list_inputs, read_batches
from diagnostics.recommendations import Setting, recommend, setting_of
from diagnostics.rules import load_rules
from diagnostics.rules.base import Rule
from diagnostics.scanner import Scanner
from diagnostics.timeline import in_time_order

MAX_RANK_ROWS = 4096
MAX_VICTIMS = 20


class Reading:
    """Logs being read: feed batches, take a diagnosis at any time. ``--follow`` keeps one of these."""

    def __init__(self) -> None:
        self._builder = FactBuilder()
        self._scanner = Scanner(self._builder.add)
        self._files: dict[str, None] = {}
        self._notes: list[str] = []
        self._dumps: list[FlightRecord] = []
        self._damaged: list[str] = []

    def feed(self, batch: Batch) -> None:
        """Read one batch of lines."""
        self._files.setdefault(batch.file)
        if batch.note:
            self._notes.append(batch.note)
        self._scanner.feed(batch)

    def read_file(self, file: str) -> None:
        """Read a whole file. Raises UnreadableInputError when it cannot be opened."""
        if flight_recorder.is_dump(file):
            self._read_dump(file)
            return
        self._files.setdefault(file)
        for batch in read_batches(file):
            self.feed(batch)
        self.flush()

    def read_files(self, files: Sequence[str]) -> None:
        """Read whole files; of several, one that cannot be opened is noted. Raises UnreadableInputError for all."""
        refused = 0
        for file in files:
            try:
                self.read_file(file)
            except UnreadableInputError as error:
                refused += 1
                if refused == len(files):
                    raise
                reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else None
                self._notes.append(f"{file}: left out, it cannot be read: {reason or 'see its permissions and format'}")

    def flush(self) -> None:
        """Take a line that was kept back in case the next one continues it."""
        self._scanner.finish()

    def _read_dump(self, file: str) -> None:
        try:
            self._dumps.append(flight_recorder.read_dump(file))
        except flight_recorder.DamagedDumpError as error:
            self._damaged.append(file)
            self._notes.append(str(error))
        except OSError as error:
            raise UnreadableInputError(f"cannot read '{file}': {error.strerror}; check that it may be read") from error

    def facts(self) -> JobFacts:
        """What has been seen so far."""
        return self._builder.build(
            channels=self._scanner.channels,
            channel_event=self._scanner.channel_event,
            files=tuple(self._files),
            lines=(self._scanner.gate.lines, self._scanner.gate.nccl_lines),
            repeated=self._scanner.repeated(),
            notes=self._notes,
            dumps=self._dumps,
            damaged_dumps=self._damaged,
            starts_left_out=self._scanner.starts_left_out or self._scanner.deduplicated,
        )

    def diagnosis(self) -> Diagnosis:
        """The verdict on what has been seen so far."""
        gate = self._scanner.gate
        lines = LineCounts(
            read=gate.lines,
            nccl=min(gate.nccl_lines, gate.lines),
            unreadable=self._scanner.unreadable,
            nccl_estimated=gate.estimated,
        )
        return diagnose_facts(self.facts(), lines)


def diagnose_paths(paths: Sequence[str | Path]) -> Diagnosis:
    """The diagnosis of one job's logs: files, folders, globs or ``-``. Raises UnreadableInputError."""
    reading = Reading()
    reading.read_files(list_inputs(paths))
    return reading.diagnosis()


def diagnose_facts(facts: JobFacts, lines: LineCounts) -> Diagnosis:
    """The diagnosis of facts that were already collected."""
    findings, clear, unsure = ask_rules(facts, load_rules())
    findings = in_time_order(findings)
    setting = setting_of(facts)
    findings = lower_explained(findings, {rule.id: rule.explained_by for rule in load_rules() if rule.explained_by})
    folded = fold_consequences(findings, {rule.id: rule.consequence for rule in load_rules() if rule.consequence})
    finished = [_finish(finding, setting) for finding in folded]
    finished.sort(key=lambda finding: (SEVERITY_ORDER[finding.severity], finding.sequence))
    network = transport.job_network(facts)
    split = any(finding.rule == "host-identity-mismatch" for finding in finished)
    verdict = _verdict(finished, network, facts)
    return Diagnosis(
        verdict=verdict,
        explanation=_explain(verdict, network, finished, facts),
        network=network,
        gdr=transport.gpu_direct(facts),
        tcp_fallback=transport.tcp_fallback(facts, split_machine=split),
        nccl_versions=facts.versions,
        world_size=facts.world.nranks if facts.world else None,
        nodes=facts.node_count,
        ranks=rank_rows(facts),
        missing_ranks=missing_ranks(facts),
        findings=tuple(finished),
        rules_clear=tuple(clear),
        rules_cannot_tell=tuple(unsure),
        lines=lines,
        counters=_counters(facts),
        notes=tuple(facts.notes),
    )


def ask_rules(facts: JobFacts, rules: Iterable[Rule]) -> tuple[list[Finding], list[str], list[CannotTell]]:
    """Findings, rules that are clear, and rules that cannot tell."""
    findings: list[Finding] = []
    clear: list[str] = []
    unsure: list[CannotTell] = []
    for rule in rules:
        try:
            outcome = rule.check(facts)
        except Exception as error:  # noqa: BLE001 - one faulty rule must not take the others with it
            unsure.append(
                CannotTell(rule=rule.id, why=f"error in the rule: {type(error).__name__}: {error}; please report it")
            )
            continue
        findings += [
            replace(finding, rule=rule.id, actions=finding.actions or rule.actions) for finding in outcome.findings
        ]
        if outcome.cannot_tell:
            unsure.append(CannotTell(rule=rule.id, why=outcome.cannot_tell))
        elif not outcome.findings:
            clear.append(rule.id)
    return findings, clear, unsure


def lower_explained(findings: Sequence[Finding], explained_by: Mapping[str, tuple[str, ...]]) -> list[Finding]:
    """Findings at info where a rule that says more of the same is as severe; that one gets their lines."""
    faults = {finding.rule: finding for finding in findings if finding.severity != "info"}
    lowered: list[Finding] = []
    victims: dict[str, tuple[Evidence, ...]] = {}
    for finding in findings:
        causes = (faults[rule] for rule in explained_by.get(finding.rule, ()) if rule in faults)
        cause = next((fault.rule for fault in causes if _explains(fault, finding)), None)
        if cause is None or finding.severity == "info":
            lowered.append(finding)
            continue
        victims[cause] = victims.get(cause, ()) + finding.evidence
        note = f"Explained by {cause}. "
        lowered.append(replace(finding, severity="info", explanation=note + finding.explanation))
    return [_with_victims(finding, victims.get(finding.rule, ())) for finding in lowered]


def _explains(fault: Finding, finding: Finding) -> bool:
    """Whether a fault is at least as severe as a finding, and was seen before it."""
    as_severe = SEVERITY_ORDER[fault.severity] <= SEVERITY_ORDER[finding.severity]
    return as_severe and fault.sequence <= finding.sequence


def _with_victims(finding: Finding, lines: Sequence[Evidence]) -> Finding:
    """The finding with these lines under it, without those that it quotes already."""
    own = {(evidence.file, evidence.line) for evidence in (*finding.evidence, *finding.victims)}
    fresh = tuple(evidence for evidence in lines if (evidence.file, evidence.line) not in own)
    return replace(finding, victims=(finding.victims + fresh)[:MAX_VICTIMS])


def fold_consequences(findings: Sequence[Finding], consequences: Mapping[str, str]) -> list[Finding]:
    """Findings with consequences listed under, or set below, the first critical cause; unchanged without a cause.

    ``consequences`` maps rules to ``fold`` or ``lower``.
    """
    causes = [finding for finding in findings if finding.severity == "critical" and finding.rule not in consequences]
    if not causes:
        return list(findings)
    first = min(causes, key=lambda finding: finding.sequence)
    folded = [finding for finding in findings if consequences.get(finding.rule) == "fold"]
    lines = tuple(evidence for victim in folded for evidence in victim.evidence)
    result = []
    for finding in findings:
        if finding is first:
            result.append(_with_victims(finding, lines))
        elif consequences.get(finding.rule) == "lower":
            note = f"A consequence of {first.rule}, most likely. "
            result.append(replace(finding, severity="info", explanation=note + finding.explanation))
        elif finding.rule not in consequences:
            result.append(finding)
    return result


def _finish(finding: Finding, setting: Setting) -> Finding:
    """The finding with its recommendations, and with text of the log made inert."""
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


def _verdict(findings: Sequence[Finding], network: str, facts: JobFacts) -> Verdict:
    worst = findings[0].severity if findings else None
    if worst == "critical":
        return "critical"
    if worst == "warning":
        return "warning"
    return "unknown" if network == "unknown" or not facts.lines_nccl else "ok"


def _explain(verdict: Verdict, network: str, findings: Sequence[Finding], facts: JobFacts) -> str:
    if verdict in ("critical", "warning"):
        return findings[0].summary
    if not facts.lines_nccl and network == "unknown":
        return (
            "The input holds no line of NCCL or RCCL: another backend such as gloo, or NCCL_DEBUG was not set. "
            "Run again with NCCL_DEBUG=INFO in the environment of every rank."
        )
    if verdict == "unknown":
        return (
            "No problem is shown, but the log does not say which network NCCL chose. "
            "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH on every rank would show it."
        )
    return "No problem is shown by the log."


def missing_ranks(facts: JobFacts) -> tuple[int, ...]:
    """World ranks that no line names, where at least half of the ranks are named."""
    world = facts.world
    if world is None or facts.starts_left_out or 2 * len(world.members) < world.nranks or world.nranks > 10**6:
        return ()
    return tuple(rank for rank in range(world.nranks) if rank not in world.members)[:MAX_RANK_ROWS]


def rank_rows(facts: JobFacts) -> tuple[RankRow, ...]:
    """One row for each rank of the world communicator that was seen, at most MAX_RANK_ROWS."""
    world = facts.world
    if world is None:
        return ()
    layer = transport.link_layer(facts)
    rows = []
    for rank in sorted(world.members)[:MAX_RANK_ROWS]:
        member = world.members[rank]
        process = facts.processes.get(member.process)
        networks = [transport.network_class(name, layer) for name in process.networks] if process else []
        rows.append(
            RankRow(
                rank=rank,
                host=member.process[0] or None,
                pid=member.process[1] or None,
                device=member.nvml or member.cuda,
                network=networks[-1] if networks else None,
                nic_count=len(process.devices) if process and process.devices is not None else None,
                transports=tuple(sorted(process.transports)) if process else (),
                initialised=True if member.completed else (False if member.started else None),
            )
        )
    return tuple(rows)


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
    }
