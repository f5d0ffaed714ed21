"""Ctrl-C that came at a moment when Python drops exceptions is sent once more."""

import os
import signal
import sys

_AGAIN_SECONDS = 0.05


def send_lost_interrupts_again() -> None:
    """From now on in this process.

    A handler that raises does so at whatever the main thread is at: a ``__del__``, a callback of a weak reference or of
    ``fork``. Python prints "Exception ignored in" there, goes on, and the user's Ctrl-C is lost.
    """
    before = sys.unraisablehook

    def hook(what: "sys.UnraisableHookArgs", /) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt) or sys.is_finalizing():
            before(what)
            return
        import threading

        again = threading.Timer(_AGAIN_SECONDS, _send)  # raised in here it would be dropped, too
        again.daemon = True
        again.start()

    sys.unraisablehook = hook


def _send() -> None:
    """Whichever of them this process handles: each ends it in the same order."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):
            os.kill(os.getpid(), number)
            return
