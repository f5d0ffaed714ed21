"""Logs to a diagnosis: read, scan, collect facts, ask every rule, fold consequences under their cause."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from diagnostics import transport
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
from diagnostics.flight_recorder import DamagedDumpError, Recorder, is_dump
from diagnostics.inputs import Input, find_inputs
from diagnostics.jobs import Job, Part, read_part, sort_by_job
from diagnostics.overall import overall
from diagnostics.reader import Batch
from diagnostics.recommendations import Setting, recommend, setting_of
from diagnostics.rules import load_rules
from diagnostics.rules.base import Rule
from diagnostics.scanner import Scanner
from diagnostics.timeline import in_time_order

MAX_VICTIMS = 20
_LEVELS: Mapping[str, int] = {
    "": 0,
    "fold": 1,
    "lower": 1,
    "after": 2,
    "last": 3,
}  # what follows from what stands before
_ABOUT_THE_LOG = frozenset({"log-too-quiet", "log-truncated"})


class Reading:
    """Logs being read: feed batches, take a diagnosis at any time. ``--follow`` keeps one of these."""

    def __init__(self) -> None:
        self._builder = FactBuilder()
        self._scanner = Scanner(self._builder.add)
        self._files: dict[str, None] = {}
        self._notes: list[str] = []
        self._dumps: list[FlightRecord] = []
        self._recorder = Recorder()
        self.refused: UnreadableInputError | None = None  # the last file that could not be opened
        self._damaged: list[str] = []

    def feed(self, batch: Batch) -> None:
        """Read one batch of lines."""
        self._files.setdefault(batch.file)
        if batch.note:
            self._notes.append(batch.note)
        self._scanner.feed(batch)

    def read_file(self, file: str | Input) -> None:
        """Read a whole file. Raises UnreadableInputError when it cannot be opened."""
        self.read_part(Part(file=file if isinstance(file, Input) else Input(name=file)))

    def read_part(self, part: Part) -> None:
        """Read a file, or the part of it that is this job's. Raises UnreadableInputError when it cannot be opened."""
        if is_dump(part.file.name):
            self._read_dump(part.file)
            return
        self._files.setdefault(part.file.name)
        for batch in read_part(part):
            self.feed(batch)
        self.flush()

    def read_job(self, job: Job) -> int:
        """Read all parts of a job; how many were left out, with a note, because they cannot be opened."""
        left_out = 0
        for part in job.parts:
            try:
                self.read_part(part)
            except UnreadableInputError as error:
                left_out += 1
                self.refused = error
                reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else None
                self._notes.append(f"{part.file.name}: left out, it cannot be read: {reason or error}")
        return left_out

    def flush(self) -> None:
        """Take a line that was kept back in case the next one continues it."""
        self._scanner.finish()

    def _read_dump(self, file: Input) -> None:
        try:
            self._dumps.append(self._recorder.read(file))
        except DamagedDumpError as error:
            self._damaged.append(file.name)
            self._notes.append(str(error))
        except OSError as error:
            raise UnreadableInputError(
                f"cannot read '{file.name}': {error.strerror or error}; check that it may be read"
            ) from error

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
            last_lines=self._scanner.last_lines,
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
    """The diagnosis of logs: files, folders, globs or ``-``, each job judged by itself. Raises UnreadableInputError."""
    inputs = find_inputs(paths)
    jobs = sort_by_job(inputs.files)
    readings = [Reading() for _ in jobs]
    left_out = sum(reading.read_job(job) for reading, job in zip(readings, jobs, strict=True))
    if left_out == sum(len(job.parts) for job in jobs):
        raise next(reading.refused for reading in readings if reading.refused is not None)
    return diagnose_jobs(jobs, readings, inputs.notes)


def diagnose_jobs(jobs: Sequence[Job], readings: Sequence[Reading], notes: Sequence[str] = ()) -> Diagnosis:
    """The diagnosis of jobs that were read: of one its own, of several that of all."""
    diagnoses = [reading.diagnosis() for reading in readings]
    if len(diagnoses) > 1:
        whole = overall([(job.name, diagnosis) for job, diagnosis in zip(jobs, diagnoses, strict=True)])
    else:
        whole = diagnoses[0]
    return replace(whole, notes=(*whole.notes, *notes))


def diagnose_facts(facts: JobFacts, lines: LineCounts) -> Diagnosis:
    """The diagnosis of facts that were already collected."""
    findings, clear, unsure = ask_rules(facts, load_rules())
    findings = in_time_order(findings)
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


def fold_consequences(
    findings: Sequence[Finding], consequences: Mapping[str, str], slow: frozenset[str] = frozenset()
) -> list[Finding]:
    """Findings, the worst and first on top, with consequences listed under, or set below, the first critical cause.

    ``consequences`` maps rules to ``fold``, ``lower``, ``after`` or ``last``. What makes a run ``slow`` is no cause of
    its failure, and stands below it.
    """

    def fails(finding: Finding) -> bool:
        return finding.severity == "critical" and (finding.blocks or finding.rule not in slow)

    failures = [finding for finding in findings if fails(finding)]
    if failures:
        level = min(_LEVELS[consequences.get(finding.rule, "")] for finding in failures)
        causes = [finding for finding in failures if _LEVELS[consequences.get(finding.rule, "")] == level]
        findings = _under(min(causes, key=lambda finding: finding.sequence), level, findings, consequences)
    return sorted(
        findings,
        key=lambda finding: (
            SEVERITY_ORDER[finding.severity],
            not fails(finding),
            finding.rule in _ABOUT_THE_LOG,
            finding.sequence,
        ),
    )


def _under(first: Finding, level: int, findings: Sequence[Finding], consequences: Mapping[str, str]) -> list[Finding]:
    """The findings with those that follow from ``first``, whose level is given, listed under it or set below it."""
    kinds = {finding.rule: consequences.get(finding.rule, "") for finding in findings}
    folded = [one for one in findings if kinds[one.rule] in ("fold", "last") and _LEVELS[kinds[one.rule]] > level]
    lines = tuple(evidence for victim in folded for evidence in victim.evidence)
    result = []
    for finding in findings:
        if finding is first:
            result.append(_with_victims(finding, lines))
        elif finding not in folded and _LEVELS[kinds[finding.rule]] > level:
            note = f"A consequence of {first.rule}, most likely. "
            result.append(replace(finding, severity="info", explanation=note + finding.explanation))
        elif finding not in folded:
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
    return "unknown" if _open_question(network, findings, facts) else "ok"


def _open_question(network: str, findings: Sequence[Finding], facts: JobFacts) -> str:
    """What keeps a log without faults from showing that the job works; empty where it does show it."""
    if any(finding.rule == "application-error" for finding in findings):
        return "the log ends with an exception of the program; see what it did to the run."
    if network == "unknown" or not facts.lines_nccl:
        return (
            "the log does not say which network NCCL chose. "
            "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH on every rank would show it."
        )
    if not facts.works:
        return (
            "no line shows a communicator that came to be (`Init COMPLETE`): the log ends before, or is a part of one. "
            "Give the whole log of every rank, with NCCL_DEBUG=INFO."
        )
    if waiting := _without_completion(facts):
        return (
            f"no line shows that {waiting} ranks, which start a communicator, complete it. "
            "Give the whole log of every rank, with NCCL_DEBUG=INFO."
        )
    if network in transport.TCP_NETWORKS and facts.multi_node is None and transport.tcp_by_choice(facts) is None:
        return (
            "the log does not show how many nodes the job has: between nodes its data goes over TCP. "
            "NCCL 2.20 and newer print nNodes at NCCL_DEBUG=INFO; older ones show it by the logs of all ranks."
        )
    return ""


def _without_completion(facts: JobFacts) -> int:
    """Ranks of the world that started and did not complete, as far as the log holds all starts and completions."""
    if facts.world is None or facts.starts_left_out:
        return 0
    return sum(member.started and not member.completed for member in facts.world.members.values())


def _explain(verdict: Verdict, network: str, findings: Sequence[Finding], facts: JobFacts) -> str:
    if verdict in ("critical", "warning"):
        return findings[0].summary
    if not facts.lines_nccl and network == "unknown" and facts.flight_records:
        return (
            f"The flight-recorder dumps of {len(facts.flight_records)} ranks show no difference between them, and "
            "there is no line of NCCL beside them. Give the ranks' logs as well."
        )
    if not facts.lines_read:
        return (
            "The input is empty. "
            "Run again with NCCL_DEBUG=INFO in the environment of every rank, and give what the ranks print."
        )
    if not facts.lines_nccl and network == "unknown":
        return (
            "The input holds no line of NCCL or RCCL: another backend such as gloo, or NCCL_DEBUG was not set. "
            "Run again with NCCL_DEBUG=INFO in the environment of every rank."
        )
    if verdict == "unknown":
        return f"No problem is shown, but {_open_question(network, findings, facts)}"
    return "No problem is shown by the log."


def missing_ranks(facts: JobFacts) -> tuple[int, ...]:
    """World ranks that no line names, where at least half of the ranks are named."""
    world = facts.world
    if world is None or facts.starts_left_out or 2 * len(world.members) < world.nranks or world.nranks > 10**6:
        return ()
    return tuple(rank for rank in range(world.nranks) if rank not in world.members)


def rank_rows(facts: JobFacts) -> tuple[RankRow, ...]:
    """One row for each rank of the world communicator that was seen."""
    world = facts.world
    if world is None:
        return ()
    layer = transport.link_layer(facts)
    rows = []
    for rank in sorted(world.members):
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
        "flight_records": len(facts.flight_records),
    }
