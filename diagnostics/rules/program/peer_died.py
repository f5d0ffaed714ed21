"""A rank's process went away, and the log does not show why.

Symptom: ``Connection closed by remote peer``, ``Connection reset by peer``, flush errors (status 5), proxy failures,
a killed process (by Ray, Slurm, the kernel or systemd for lack of memory too), a daemon of mpirun that is lost, a
collective that gRPC aborts (``Socket closed``), a peer that had joined the communicator and refuses connections.

Why: when one rank ends, its neighbours lose their connections. These lines are victims; the cause is on the rank that
ended first, in its own output or the kernel's log (out-of-memory killer, Xid, node failure).

Not when: an earlier fault is in the log (these lines are then listed under it); the run was ending anyway, its
communicator destroyed or its results printed: ``[Service thread] Accept failed``, ``Could not receive type`` and a
failed operation ``Close`` are noise of the teardown.

Source: NCCL's socket.cc and proxy.cc.
"""

from collections import Counter

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.timeline import is_shown_before, stamp_of
from diagnostics.parsers.base import compiled
from diagnostics.parsers.programs import world
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, warned
from diagnostics.rules.bootstrap.connecting import LOST, MEANING, is_gone, socket_error, unanswered
from diagnostics.rules.node.shm_too_small import need_of
from diagnostics.rules.program.job_cancelled import before_any_cut
from diagnostics.rules.program.killing import ABORTED, is_bus_error, killed_before, signal_of
from diagnostics.rules.rdma.verbs import completion_status, peer_names

_BESIDE_THE_STORE = world.KINDS | {"store-left", "store-tried"}
_LINES_OF_A_CHECK = 2  # the call that failed, and who called
_LOOPBACK = compiled(r"\[?(127\.|::1\b|localhost\b)")  # which every machine calls itself: it names nobody
_MEMORY = r"(?i)oom|memory"
_OF_SETUP = ("Connect", "Setup", "Init", "SharedInit", "opId")  # of NCCL's proxy, which others answer at the teardown
_REASONS = ("run-error", "watchdog-exception", "store-failed", "ranks-missing")


def check(facts: JobFacts) -> Outcome:
    """Found where connections were lost before the end of the run."""
    silent = [event for event in facts.of("ras-peer-dead") if not _after_the_end(event, facts)]
    killed = before_any_cut(facts, [event for event in facts.of("process-killed") if _is_ended(event, facts)] + silent)
    lost = [event for event in warned(facts, "peer-closed") if not facts.is_from_unknown_client(event)]
    lost += [event for event in facts.of("proxy-victim") if _matters(event)]
    lost += [event for event in facts.of("completion-error") if _is_of_gone(event, facts)]
    lost += [event for event in facts.of("communicator-aborted") if not _names_timeout(event)]
    lost += [event for event in facts.of("remote-gone") if not facts.went_on(event)]
    lost += _left_alone(facts)
    lost += [event for event in [*warned(facts, "connect-failed"), *unanswered(facts)] if is_gone(event, facts)]
    lost = before_any_cut(facts, [event for event in lost if not _after_the_end(event, facts)])
    events = sorted(killed + lost, key=lambda event: event.origin.sequence)
    if not events:
        return CLEAR
    late = max(events[0].origin.sequence, _behind_watchdog(events, facts))
    peers = [name for name in peer_names(facts, lost) if not _LOOPBACK.match(name)]
    bus = any(is_bus_error(event) for event in killed)
    first = _signal_named_first(killed)
    return found(
        conclude(
            facts,
            events,
            sequence=late,
            severity="critical",
            confidence="likely" if killed else "possible",
            summary=(_how_ended(first) if first else _what_went(events[0]))
            + (f"; first peer lost: {peers[0]}" if peers else ""),
            explanation=(
                f"A bus error is what a full /dev/shm gives to the process that writes there.{need_of(facts)} "
                if bus
                else ""
            )
            + (_explain_end(first) if first else _explain(lost[0] if lost and not killed else None)),
            actions=("more-shm", "look-at-rank", "whole-log") if bus else (),
            occurrences=facts.count("peer-closed", "process-killed", "communicator-aborted") or len(events),
        )
    )


def _is_of_gone(event: Event, facts: JobFacts) -> bool:
    """Whether a transfer was flushed, or got no answer after a process had been killed."""
    status = completion_status(event)
    return status == 5 or (status in (12, 13) and bool(killed_before(facts, event)))


def _behind_watchdog(events: list[Event], facts: JobFacts) -> int:
    """The place behind a watchdog's message where gloo or the store tell of a process that is gone, and NCCL does not.

    The watchdog ends its process, which the others see, and their lines may stand first in the log.
    """
    waited = facts.first("watchdog-timeout")
    own = any(event.origin.process is not None or event.kind == "process-killed" for event in events)
    if waited is None or any(is_shown_before(event, waited) for event in events):
        return 0
    stamped = all(stamp_of(event.text) for event in (events[0], waited))
    return waited.origin.sequence + 1 if stamped or not own else 0


def _left_alone(facts: JobFacts) -> list[Event]:
    """What a rank says again and again of a store that is gone; once is how a run ends whose rank 0 is first.

    Where a log begins with it and tells nothing else, someone took it out of one as what that failed of.
    """
    left = [event for event in facts.of("store-left") if not (facts.works or facts.survived(event))]
    told = Counter(event.origin.rank for event in left)
    alone = not facts.steps and facts.events.keys() <= _BESIDE_THE_STORE
    taken_out = alone and any(event.origin.line == 1 for event in left)
    return left if taken_out or max(told.values(), default=0) > _LINES_OF_A_CHECK else []


def _names_timeout(event: Event) -> bool:
    """Whether a rank says itself that its own watchdog ended it: then it waited for others, and did not lose them."""
    return "Watchdog caught" in event.text


def _is_ended(event: Event, facts: JobFacts) -> bool:
    """Whether a process was ended by a signal from outside or a crash: one that aborts itself mostly says why first."""
    return signal_of(event) not in ABORTED or not any(
        told.origin.sequence < event.origin.sequence for told in facts.of(*_REASONS) if not facts.survived(told)
    )


def _how_ended(signal: str) -> str:
    if compiled(_MEMORY).search(signal):
        return f"A rank's process was killed as the memory of its host or container was used up ({signal})"
    return f"A rank's process was ended ({'by a signal' if signal == 'signal' else signal})"


def _signal_named_first(killed: list[Event]) -> str | None:
    """What ended a process, by the first line that names it; Open MPI does so in a line behind the one on its end."""
    signals = [signal for event in killed if (signal := signal_of(event))]
    return next((signal for signal in signals if signal != "signal"), next(iter(signals), None))


def _explain_end(signal: str) -> str:
    if compiled(_MEMORY).search(signal):
        return (
            "What was out of memory is the host, or its container's limit: the kernel's log, Ray's or the pod's events "
            "say how much was taken, and by whom. Connections that other ranks lose follow from it."
        )
    return (
        "This tells how the process ended, and not why: look at that rank's own output before it and at its host's "
        "kernel log. Connections that other ranks lose follow from it."
    )


def _what_went(event: Event) -> str:
    error = socket_error(event)
    if error is None:
        return "A rank's process went away"
    return f"{'The connection to a rank was lost' if error.name in LOST else 'A rank went away'} ({error})"


def _explain(event: Event | None) -> str:
    error = socket_error(event) if event is not None else None
    if error is not None and error.name in LOST:
        return (
            f"{MEANING[error.name]} The connection stood before, so the host or its link went away; look at both, and "
            "at that rank's own output."
        )
    return (
        "The lines show the neighbours of the rank that ended, not why it ended. Look at that rank's own output and at "
        "its host's kernel log."
    )


def _matters(event: Event) -> bool:
    return event.origin.level != "INFO" and event.fields.get("operation") in _OF_SETUP


def _after_the_end(event: Event, facts: JobFacts) -> bool:
    """Whether a communicator was already destroyed, or all work was done, when the line was printed.

    Ranks may leave without destroying their communicator; those that go last then see the others as gone.
    """
    ended = facts.first("destroy", "work-done")
    if ended is None:
        return False
    if ended.origin.file == event.origin.file:  # by its line: a warning is read to its end after the lines behind it
        return event.origin.line > ended.origin.line
    return event.origin.sequence > ended.origin.sequence


RULE = Rule(
    id="peer-died",
    title="A rank's process went away",
    severity="critical",
    actions=("look-at-rank", "whole-log"),
    check=check,
    consequence="fold",
    explained_by=("bootstrap-unreachable",),
)
