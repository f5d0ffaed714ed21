"""What ended a process, by the lines that tell that it was ended."""

from diagnostics.events import Event

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}


def signal_of(event: Event) -> str | None:
    """The signal that ended a process: as the line names it, or by the number of the exit status."""
    number = event.fields.get("number")
    return event.fields.get("signal") if number is None else _SIGNALS.get(abs(int(number)) % 128)


def is_bus_error(event: Event) -> bool:
    """Whether a process touched memory that is mapped and not there, such as a file in a full /dev/shm."""
    return signal_of(event) in ("Bus error", "SIGBUS", "signal 7")
