"""The console script, and ``python -m raybench``. Ctrl-C stops it in one line from its first import on."""

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, whose import takes long enough for a Ctrl-C
import os

_INCOMPLETE = 3


def main() -> None:
    """``raybench.cli.main``, imported under a handler of Ctrl-C that raises nothing: an import could swallow that."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # not where it is ignored
        _signal.signal(_signal.SIGINT, _stop)
    from raybench.cli import main as run  # which has handlers of its own

    run()


def _stop(*_: object) -> None:
    """At once: nothing is there yet to be ended in order, and at an interpreter's own end a second one would show."""
    try:
        os.write(2, b"\nraybench: stopped\n")
    finally:
        os._exit(_INCOMPLETE)


if __name__ == "__main__":
    main()
