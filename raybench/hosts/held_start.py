"""A playbook that is started while its inventory is still being checked: it waits for its variables.

Ansible takes a second to start and to read the inventory. Its variables come through a pipe, as with ``-e @<(...)``, so
that this second passes beside the check. Ansible goes to no host before it has them, and it has them once the check is
done.
"""

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_POLL_SECONDS = 0.02


@dataclass(slots=True, kw_only=True)
class HeldStart:
    """What the playbook waits for. ``trouble``: why it is not to go on."""

    trouble: BaseException | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def work(self, pipe: Path, check: Callable[[], None], text: str) -> None:
        """Check, then write the variables where Ansible waits for them."""
        try:
            check()
            self._write(pipe, text)
        except BaseException as error:  # noqa: BLE001 - raised again once the run has ended
            self.trouble = error

    def _write(self, pipe: Path, text: str) -> None:
        while not self._over.is_set():
            try:
                descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                if error.errno != errno.ENXIO:  # nobody reads it yet
                    raise
                time.sleep(_POLL_SECONDS)
                continue
            os.set_blocking(descriptor, True)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file, contextlib.suppress(BrokenPipeError):
                file.write(text)
            return

    def end(self) -> None:
        """Write no more: the playbook has ended."""
        self._over.set()


@contextlib.contextmanager
def held_start(pipe: Path, check: Callable[[], None], text: str) -> Iterator[HeldStart]:
    """Within the block ``check`` runs, and then ``text`` is written to ``pipe``, which is made here, mode 0600.

    The block ends what ``check`` has started: its end is waited for.
    """
    os.mkfifo(pipe, 0o600)
    held = HeldStart()
    thread = threading.Thread(target=held.work, args=(pipe, check, text), daemon=True, name="inventory")
    thread.start()
    try:
        yield held
    finally:
        held.end()
        thread.join()
