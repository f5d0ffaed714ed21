"""What a host is asked to do, and the figures that it says."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any, NamedTuple

_LOCK = threading.Lock()


class Plan(NamedTuple):
    """Which tests, how large and how long. Times in seconds.

    ``tests`` are the names of ``conduct.TESTS`` that are wanted. ``seconds`` is what all of them together may take; a
    test that would begin later is not begun; a test is given what is left of it. ``widths`` are the edges of the
    matrices: exact and timed, of a CPU, then of a GPU. ``samples`` timed blocks of ``block_seconds`` make a figure.
    Sizes in MiB are those of one array, message or file; ``gpu_...`` on a GPU. ``folder`` is where the disk is tested;
    empty for /var/tmp or /tmp. ``diag_level`` is the level of ``dcgmi diag``.
    """

    tests: tuple[str, ...]
    seconds: float = 60.0
    samples: int = 5
    block_seconds: float = 0.2
    cpu_widths: tuple[int, int] = (256, 1024)
    gpu_widths: tuple[int, int] = (4096, 8192)
    memory_mib: int = 256
    gpu_memory_mib: int = 4096
    transfer_mib: int = 256
    message_mib: int = 16
    gpu_message_mib: int = 256
    disk_mib: int = 256
    folder: str = ""
    burn_seconds: float = 120.0
    diag_level: int = 2


class Figure(NamedTuple):
    """What a test says of one case on one device.

    ``status``: ok, skipped (nothing here to test), missing (it cannot be tested here: ``reason``), warned (a program's
    own warning) or failed (the device, a library or a program reported an error). ``samples`` are in ``unit``. Of
    ``checked`` elements ``wrong`` were not as they must be. Figures are compared between hosts only where ``setting``,
    ``case`` and the device's ``model`` agree.
    """

    test: str
    device: str
    case: str = ""
    status: str = "ok"
    reason: str = ""
    model: str = ""
    setting: str = ""
    unit: str = ""
    samples: tuple[float, ...] = ()
    checked: int = 0
    wrong: int = 0
    detail: str = ""


def plan_of(values: dict[str, Any]) -> Plan:
    """The plan as it came, lists as tuples. Raises TypeError for a name that no plan has."""
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Plan(**given)


def say(figure: Figure) -> None:
    """Hand a figure to who started this process."""
    _write({"figure": {name: value for name, value in figure._asdict().items() if value not in ("", (), 0)}})


def say_begun(test: str) -> None:
    """Name the test that begins: where the host hangs in it, that is known."""
    _write({"begun": test, "at": time.time()})


def say_facts(**facts: object) -> None:
    """Tell what the host runs."""
    _write({"facts": facts})


def _write(line: dict[str, Any]) -> None:
    with _LOCK:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
