"""The program itself failed first.

Symptom: a Python exception before any fault of NCCL, and other ranks that lose their peer or time out.

Why: one rank raised; the others waited in a collective until the watchdog ended them. The last lines of a log are
then about NCCL although the first fault is not.

Not when: the exception is NCCL's own (DistBackendError, ncclSystemError), a framework's (EngineDeadError), or the
launcher's summary (ChildFailedError); an exception is printed and every rank that writes the file goes on to work.

Severity: critical where other ranks fail after it or its traceback is the end of the log, info where it is printed
near the end and the program may have handled it ("Exception ignored in").

Source: field knowledge.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.timeline import stamp_of
from diagnostics.parsers.base import compiled
from diagnostics.parsers.programs import world
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, warned
from diagnostics.rules.bootstrap.connecting import is_gone, unanswered
from diagnostics.rules.program.run_failed import is_of_framework
from diagnostics.rules.program.tracebacks import IGNORED_LINES, TAIL_LINES, ends_its_file, is_behind

_NOT_OWN = (
    "DistBackendError",
    "DistStoreError",
    "DistNetworkError",
    "DistError",
    "ChildFailedError",
    "ProcessExitedException",
    "ProcessRaisedException",
    "OutOfMemoryError",
    "BrokenPipeError",
    "ConnectionResetError",
    "RayTaskError",
    "ActorDiedError",
)
_OF_NCCL = ("NCCL", "nccl", "c10d", "ProcessGroup", " out of memory", "TCPStore", "store->get", "Gloo", "gloo")
_CONSEQUENCES = (
    "watchdog-timeout",
    "peer-closed",
    "communicator-aborted",
    "process-killed",
    "watchdog-exception",
    "launcher-failure",
)
_SAYS_NO_MORE = world.KINDS | {
    "python-error",
    "traceback",
    "exception-ignored",
    "shell-variable",
    "version",
    "disk-full",
}
_HANDLED = r"(?i)warn|retry|ignor|skip|(?<!un)caught(?! \w+ in (?:DataLoader|replica|pin memory))|fall(?:ing)? ?back"
_UNCAUGHT = r"(?i)\b(?:uncaught|unhandled) exception\b"
_HOOK = r"^\W*\[rank\d{1,7}\]: (?:\w+\.)*[A-Z]\w*(?:: |$)"  # PyTorch's hook for what nobody catches
_LAST_LINES = 3  # an exception may have several


def check(facts: JobFacts) -> Outcome:
    """Found where an exception of the program precedes the faults of the others, or ends the log."""
    others = facts.of(*(kind for kind in facts.events if kind not in _SAYS_NO_MORE))
    others = [event for event in others if event.origin.level != "INFO"]  # into whose line an exception may be torn
    told = {(event.origin.file, event.origin.line) for event in others}
    errors = [event for event in facts.of("python-error") if _is_own(event)]
    errors = [event for event in errors if (event.origin.file, event.origin.line) not in told]
    if not facts.of("traceback"):  # without one only what is said last counts: programs report what they handle, too
        errors = [event for event in errors if facts.is_near_end(event) or _is_uncaught(event)]
    if not errors:
        return CLEAR
    first = errors[0]
    refused = [event for event in [*warned(facts, "connect-failed"), *unanswered(facts)] if is_gone(event, facts)]
    consequences = facts.of(*_CONSEQUENCES) + refused
    corroborated = any(_follows(event, first) for event in consequences)
    if not corroborated:
        errors = [event for event in errors if ends_its_file(event, facts) or _is_uncaught(event)]
        if not errors:
            return CLEAR
        first = errors[0]
    uncaught = any(_is_uncaught(event) and not facts.went_on(event) for event in errors)
    ended = corroborated or uncaught or _is_last_word(errors[-1], facts)
    return found(
        conclude(
            facts,
            errors[:3],
            severity="critical" if ended else "info",
            confidence="likely" if corroborated else "possible",
            summary=f"The program raised {first.fields['name']}: {first.fields['reason'][:120]}",
            explanation="This exception comes before the faults of the other ranks, which are its consequences."
            if corroborated
            else "The output ends with this exception of the program. Nothing in the log connects it with NCCL.",
            occurrences=len(errors),
        )
    )


def _is_uncaught(event: Event) -> bool:
    """Whether the line itself says that nobody handles the exception, wherever a collector of logs puts it."""
    return compiled(_UNCAUGHT).search(event.text) is not None


def _is_last_word(event: Event, facts: JobFacts) -> bool:
    """Whether nothing comes behind an exception and its traceback, which ended the program then."""
    told = event.text.replace(event.fields["name"], "")
    excerpt = not facts.lines_nccl and not compiled(_HANDLED).search(told)  # whose traceback may be left out
    of_hook = compiled(_HOOK).search(event.text) is not None
    raised = is_behind("traceback", event, TAIL_LINES, facts) or excerpt or of_hook
    alone = raised and not is_behind("exception-ignored", event, IGNORED_LINES, facts)
    return alone and event.origin.line > facts.last_lines.get(event.origin.file, 0) - _LAST_LINES


def _follows(consequence: Event, error: Event) -> bool:
    """Whether a fault comes after an error: behind it in its file, or in another file and not stamped earlier."""
    if consequence.origin.file == error.origin.file:
        return consequence.origin.sequence > error.origin.sequence
    stamps = stamp_of(consequence.text), stamp_of(error.text)
    if stamps[0] and stamps[1] and stamps[0][0] == stamps[1][0]:
        return stamps[0] >= stamps[1]
    return True


def _is_own(event: Event) -> bool:
    name = event.fields["name"].rsplit(".", 1)[-1]
    return (
        name not in _NOT_OWN
        and not is_of_framework(event)
        and not any(word in event.fields["reason"] for word in _OF_NCCL)
    )


RULE = Rule(
    id="application-error",
    title="The program itself failed first",
    severity="critical; info where the program may have gone on",
    actions=("look-at-rank",),
    check=check,
)
