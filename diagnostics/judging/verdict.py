"""The verdict on a log and the sentence that explains it: a log without faults may still leave the question open."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from diagnostics import transport
from diagnostics.events import Event, quote
from diagnostics.facts import JobFacts
from diagnostics.findings import Diagnosis, Finding, Verdict
from diagnostics.inputs.reader import A_TRACE
from diagnostics.judging.open_tables import begun_table, cut_table, cut_tables
from diagnostics.judging.rank_table import missing_ranks
from diagnostics.judging.restarts import told_restart
from diagnostics.judging.unfinished import still_trying, told_of, unfinished
from diagnostics.parsers.last_errors import LastError, is_error, is_fatal
from diagnostics.parsers.programs.successes import SUCCEEDED
from diagnostics.parsers.steps import is_row, is_unchecked_row, tells_rate
from diagnostics.rules.program.tracebacks import open_traceback

MAX_NAMED_RANKS = 400  # as many events of a kind are kept
_OF_WATCHERS = ("inspector", "ras-")  # kinds of what looks at a job that runs
_NO_COMMUNICATOR = (
    "no line shows a communicator that came to be (`Init COMPLETE`): the job hangs before, or the log ends there or is "
    "a part of one. Give the whole log of every rank, with NCCL_DEBUG=INFO."
)


class Question(NamedTuple):
    """What a log without faults leaves open, and the rule whose finding says so; ``event``: the line it is about."""

    told: str
    rule: str
    event: Event | None = None


def verdict_on(findings: Sequence[Finding], network: str, facts: JobFacts) -> Verdict:
    """What the findings, the worst first, and the facts say of the job."""
    worst = findings[0].severity if findings else None
    if worst == "critical":
        return "critical"
    if worst == "warning":
        return "warning"
    return "unknown" if open_question(network, findings, facts) else "ok"


def not_shown_beside(verdict: Verdict, network: str, facts: JobFacts) -> str:
    """What the log of a warning does not show of the job's start or end; empty where it shows both, or is worse.

    A slow path is no reason why ranks stand still: they may, for a reason that no line tells.
    """
    watched = any(kind.startswith(_OF_WATCHERS) and kind != "ras-port" for kind in facts.totals)
    if verdict != "warning" or not facts.lines_nccl or watched or _tests_passed(facts):
        return ""
    if not facts.works and not _shows_steps(facts):
        return cut_table(facts) or _NO_COMMUNICATOR
    return _start_or_end_not_shown(network, facts)


def without_unread(diagnosis: Diagnosis, notes: Sequence[str]) -> Diagnosis:
    """The diagnosis with notes on what of the input was left out: what was not read may be where the problem is."""
    return _left_open(diagnosis, notes, _unread(notes)) if notes else diagnosis


def of_several_launches(diagnosis: Diagnosis, note: str) -> Diagnosis:
    """The diagnosis of launches that were read as one job: what one of them lacks, another may have."""
    return _left_open(diagnosis, [note], note)


def _left_open(diagnosis: Diagnosis, notes: Sequence[str], why: str) -> Diagnosis:
    whole = replace(diagnosis, notes=(*diagnosis.notes, *notes))
    if whole.verdict != "ok":
        return whole
    return replace(whole, verdict="unknown", explanation=f"No problem is shown, but {why}.")


def _unread(notes: Sequence[str]) -> str:
    return f"not all that was given could be read: {_first_of(notes)}"


def _first_of(notes: Sequence[str]) -> str:
    return notes[0] + (f" (and {len(notes) - 1} more)" if len(notes) > 1 else "")


def _nothing_read(facts: JobFacts) -> str:
    if facts.notes:
        return f"No log could be read: {_first_of(facts.notes)}. Give the logs of the ranks, or their intact dumps."
    return (
        "The input is empty. "
        "Run again with NCCL_DEBUG=INFO in the environment of every rank, and give what the ranks print."
    )


def open_question(network: str, findings: Sequence[Finding], facts: JobFacts) -> Question | None:
    """What keeps a log without faults from showing that the job works; None where it does show it."""
    if any(finding.rule == "application-error" for finding in findings):
        return Question(
            "the log ends with an exception of the program; see what it did to the run.", "application-error"
        )
    if traceback := open_traceback(facts):
        return Question(traceback.told, "run-failed", traceback.event)
    if unread := _unread_error(findings, facts) or _trouble(findings, facts):
        return Question(unread, "run-failed")
    if fatal := _fatal_before(findings, facts):
        return Question(_told_of_fatal(fatal), "run-failed", fatal)
    if begun := begun_table(facts):
        return Question(begun, "log-truncated")
    return None if _tests_passed(facts) else _not_shown(network, facts)


def _unread_error(findings: Sequence[Finding], facts: JobFacts) -> str:
    """The error that a file ends with and no finding is about; empty where there is none."""
    return _last_of(facts.last_errors, "an error", findings, facts)


def _trouble(findings: Sequence[Finding], facts: JobFacts) -> str:
    """What a file ends with that tells of trouble in any words; empty where NCCL's lines show nothing that works."""
    shown = facts.works or _tests_passed(facts)
    return _last_of(facts.last_hints, "trouble", findings, facts) if shown else ""


def _fatal_before(findings: Sequence[Finding], facts: JobFacts) -> Event | None:
    """A line of a fatal level that no finding is about, anywhere in a file that shows no work behind it."""
    known = {evidence.text.strip() for finding in findings for evidence in finding.evidence}
    results = {event.origin.file: event.origin.sequence for event in facts.of("work-done", "tests-ended")}
    for event in reversed(facts.of("fatal-level")):
        file, sequence = event.origin.file, event.origin.sequence
        worked = facts.is_worked_behind(event) or facts.steps_are_done_behind(event) or file in facts.steps
        over = worked or results.get(file, -1) > sequence or quote(event.text) in known
        if not over and is_error(event.text) and is_fatal(event.text):
            return event
    return None


def _told_of_fatal(event: Event) -> str:
    return (
        f"line {event.origin.line} of {event.origin.file} is of a fatal level, and nothing behind it tells of work: "
        f"{quote(event.text)[:200]}."
    )


def _last_of(last: Mapping[str, Sequence[LastError]], what: str, findings: Sequence[Finding], facts: JobFacts) -> str:
    known = {evidence.text.strip() for finding in findings for evidence in finding.evidence}
    for file, lines in last.items():
        told = [quote(line.text)[:200] for line in lines if quote(line.text) not in known]
        if told and file not in facts.steps:
            return f"the last lines of {file} tell of {what}, and nothing behind them of work: {' | '.join(told)}."
    return ""


def _not_shown(network: str, facts: JobFacts) -> Question | None:
    """What NCCL's own lines leave open; None where they show a job that works."""
    if unshown := _start_or_end_not_shown(network, facts):
        quiet = not cut_table(facts) and not _shows_steps(facts) and _names_no_network(network, facts)
        return Question(unshown, "log-too-quiet" if quiet else "log-truncated")
    if network in transport.TCP_NETWORKS and facts.multi_node is None and transport.tcp_by_choice(facts) is None:
        told = (
            "the log does not show how many nodes the job has: between nodes its data goes over TCP. "
            "NCCL 2.20 and newer print nNodes at NCCL_DEBUG=INFO; older ones show it by the logs of all ranks."
        )
        return Question(told, "log-too-quiet")
    return None


def _start_or_end_not_shown(network: str, facts: JobFacts) -> str:
    if facts.of("tests-range", "tests-title") and (cut := cut_table(facts)):
        return cut
    if not _shows_steps(facts) and (unshown := _start_not_shown(network, facts)):
        return cut_table(facts) or unshown
    return _left_behind(facts) or _not_given(facts) or unfinished(facts)


def _shows_steps(facts: JobFacts) -> bool:
    """Whether files end with steps that were done; where no line is NCCL's, it takes how fast they are."""
    steps = [step for file, step in facts.steps.items() if file not in cut_tables(facts)]
    return any(facts.lines_nccl or tells_rate(step) or is_row(step, titled=True) for step in steps)


def _names_no_network(network: str, facts: JobFacts) -> bool:
    return network == "unknown" or not facts.lines_nccl


def _start_not_shown(network: str, facts: JobFacts) -> str:
    """What is missing of a start by NCCL's own lines; empty where they show it."""
    if _names_no_network(network, facts):
        return (
            "the log does not say which network NCCL chose. "
            "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,NET,ENV,GRAPH on every rank would show it."
        )
    return "" if facts.works else _NO_COMMUNICATOR


def _tests_passed(facts: JobFacts) -> bool:
    """Whether the log is of nccl-tests without NCCL's own lines, and each table of it ends, none with wrong values."""
    tables = sum(event.fields["rank"] == "0" for event in facts.of("tests-rank"))
    ended = min(facts.count("work-done"), facts.count("tests-ended"))
    whole = not facts.notes and not facts.communicators
    return whole and not facts.net_channels and 0 < ended >= tables


def _left_behind(facts: JobFacts) -> str:
    """Whether rank 0 left before the others; empty where the work was done by then."""
    if not facts.of("store-left") or facts.of("destroy", "work-done") or _all_succeeded(facts):
        return ""
    return (
        "the process that keeps PyTorch's store left while another was at work, which is how a run ends that does not "
        "call destroy_process_group, and one whose rank 0 died. Give the output of rank 0."
    )


def _all_succeeded(facts: JobFacts) -> bool:
    """Whether a launcher says that the run succeeded, or of every process or rank one line does."""
    told = facts.of(SUCCEEDED)
    processes = {event.fields["pid"] for event in told if event.fields.get("pid")}
    ranks = {event.number("rank") for event in told if event.fields.get("rank")}
    size = facts.world_size
    if size is not None and (len(processes) >= size or ranks >= set(range(min(size, MAX_NAMED_RANKS)))):
        return True
    return any(not (event.fields.get("pid") or event.fields.get("rank")) for event in told)


def _not_given(facts: JobFacts) -> str:
    """What could not be read, and ranks whose file holds nothing; empty where there is nothing of the kind."""
    if facts.notes:
        return f"{_unread(facts.notes)}."
    missing = missing_ranks(facts) if facts.empty_files else ()
    if not missing:
        return ""
    return (
        f"{len(missing)} of its ranks are in no log, and {_first_of(facts.empty_files)} is empty. "
        "Give what those ranks printed, with NCCL_DEBUG=INFO."
    )


def explanation_of(verdict: Verdict, network: str, findings: Sequence[Finding], facts: JobFacts) -> str:
    """Why this is the verdict, and what would answer a question that is left open."""
    if verdict in ("critical", "warning"):
        unshown = not_shown_beside(verdict, network, facts)
        beside = f". Beside that, the log does not show that the job works: {unshown}" if unshown else ""
        return findings[0].summary + beside
    if verdict == "ok" and _tests_passed(facts):
        not_shown = " The network that it took is not shown: NCCL_DEBUG=INFO would." if network == "unknown" else ""
        checked = not any(map(is_unchecked_row, facts.steps.values()))
        values = "and its values are right" if checked else "and checked none of its values (-c 1 would)"
        return f"nccl-tests ran to its end, {values}.{not_shown}"
    if verdict == "ok" and _start_not_shown(network, facts):
        return _working(facts)
    if nothing := _read_instead(verdict, network, findings, facts):
        return nothing
    if verdict == "unknown":
        return _left_unknown(network, findings, facts)
    missing = missing_ranks(facts)
    ranks = f" of {facts.world.nranks - len(missing)} of {facts.world.nranks} ranks" if facts.world and missing else ""
    return f"No problem is shown by the log{ranks}.{told_restart(facts)}"


def _left_unknown(network: str, findings: Sequence[Finding], facts: JobFacts) -> str:
    """What keeps the question open; warnings that nobody knows may be a problem that is shown."""
    asked = open_question(network, findings, facts)
    question = asked.told if asked else ""
    unread = next((finding for finding in findings if finding.rule == "unclassified-warning"), None)
    if unread is None:
        return f"No problem is shown, but {question}"
    first = next((quote(event.fields["text"])[:120] for event in facts.of("unclassified-warning")), "")
    return f"It is open whether the run works: {unread.summary}, the first of them: {first}. Beside that, {question}"


def _read_instead(verdict: Verdict, network: str, findings: Sequence[Finding], facts: JobFacts) -> str:
    """What was read instead of lines of NCCL that show a job: an error that nobody knows, or nothing of NCCL's."""
    if verdict == "unknown" and (unread := _unread_error(findings, facts) or _trouble(findings, facts)):
        return f"It is open whether the run works: {unread}"
    if verdict == "unknown" and (trying := still_trying(facts)) is not None:
        return f"It is open whether the run works: {told_of(trying)}"
    return "" if cut_table(facts) else _without_nccl(network, facts)


def _working(facts: JobFacts) -> str:
    """What the end of a log shows that has no whole start of NCCL."""
    file, step = next(iter(facts.steps.items()))
    return (
        f"The job works up to the end of {file}: {quote(step)[:160]}. "
        f"How NCCL was set up is not shown: NCCL_DEBUG=INFO would.{told_restart(facts)}"
    )


def _without_nccl(network: str, facts: JobFacts) -> str:
    """What an input without a line of NCCL is, and what to give instead; empty where there is such a line."""
    if not facts.lines_nccl and network == "unknown" and facts.flight_records:
        return (
            f"The flight-recorder dumps of {len(facts.flight_records)} ranks show no difference between them, and "
            "there is no line of NCCL beside them. Give the ranks' logs as well."
        )
    if not facts.lines_nccl and (traces := [note for note in facts.notes if A_TRACE in note]):
        return f"The input is not a log of NCCL: {traces[0]}. What NCCL prints at NCCL_DEBUG=INFO can be judged."
    if not facts.lines_read:
        return _nothing_read(facts)
    if not facts.lines_nccl and network == "unknown" and facts.of("tests-rank", "tests-range"):
        halted = " and no row of its table: it hangs at its first size, or the log is cut" if begun_table(facts) else ""
        return (
            f"The input is the output of nccl-tests without a line of NCCL{halted}. "
            "Give all that it printed, run with NCCL_DEBUG=INFO in the environment of every rank."
        )
    if not facts.lines_nccl and network == "unknown":
        return (
            "The input holds no line of NCCL or RCCL: another backend such as gloo, or NCCL_DEBUG was not set. "
            "Run again with NCCL_DEBUG=INFO in the environment of every rank."
        )
    return ""
