"""What ended a process, by the lines that tell that it was ended."""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.judging.timeline import is_shown_before
from diagnostics.rules.program.job_cancelled import before_any_cut

ABORTED = ("Aborted", "SIGABRT", "signal 6")
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}


def signal_of(event: Event) -> str | None:
    """The signal that ended a process: as the line names it, or by the number of the exit status."""
    number = event.fields.get("number")
    return event.fields.get("signal") if number is None else _SIGNALS.get(abs(int(number)) % 128)


def is_bus_error(event: Event) -> bool:
    """Whether a process touched memory that is mapped and not there, such as a file in a full /dev/shm."""
    return signal_of(event) in ("Bus error", "SIGBUS", "signal 7")


def killed_before(facts: JobFacts, event: Event) -> list[Event]:
    """Lines of a launcher or the kernel that a process was ended, printed before another: by time, else in its file.

    A program that aborts itself has mostly seen the same fault; one that is killed from outside has not.
    """
    return [
        killed
        for killed in before_any_cut(facts, facts.of("process-killed"))
        if signal_of(killed) not in ABORTED
        and (is_shown_before(killed, event) or _stands_before(killed, event))
        and not is_shown_before(event, killed)
    ]


def _stands_before(killed: Event, event: Event) -> bool:
    return killed.origin.file == event.origin.file and killed.origin.line < event.origin.line
