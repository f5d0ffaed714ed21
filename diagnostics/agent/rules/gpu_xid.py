"""The NVIDIA driver reports an Xid or SXid.

Symptom: a line ``NVRM: Xid (PCI:0000:1b:00): 79, ...`` or ``nvidia-nvswitch0: SXid ...`` in the kernel's log.

Why: the number says what: 48, 63, 64, 94, 95 memory; 74 NVLink; 79 the GPU is off the bus; 119 and 120 its GSP; 13, 31
and 43 mostly a fault of the program. Whoever uses the GPU is ended or hangs.

Not when: 45, which follows the end of a process; 154 that says that a GPU needs nothing any more; lines that were in
the log before the agent started.

Source: NVIDIA, "Xid errors", the catalogue with its recovery actions.
"""

import re
from collections.abc import Iterator

from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LOOKED_AT_SECONDS = 60.0
# Lines of detail follow an SXid: ``..., 20034, Severity 1 Engine instance 30``, ``..., 20034, Data {0x50610002}``.
_XID = re.compile(r"\b(?P<kind>S?Xid) \((?P<device>[^)]{1,64})\): (?P<number>\d{1,5})\b(?!, (?:Severity|Data \{))")
_NEEDS_NOTHING = "to 0x0 (None)"  # of Xid 154, once a GPU was reset
_NONFATAL = re.compile(r"\b[Nn]on-?fatal\b")  # SXids write Non-fatal, Xids of NVLink 5 Nonfatal
_OF_PROGRAMS = frozenset({13, 31, 43, 68, 69})
_WARNINGS = frozenset({92, 154})  # corrected errors come often; what the driver advises has changed
_HARMLESS = frozenset({45, 63})  # the end of a process; a row that was remapped


def check(window: Window) -> Iterator[Observed]:
    """One finding a GPU and number."""
    for event in window.recent_events(LOOKED_AT_SECONDS):
        found = _XID.search(event.text)
        if found is None:
            continue
        kind, number = found["kind"], int(found["number"])
        if kind == "Xid" and (number in _HARMLESS or _NEEDS_NOTHING in event.text):
            continue
        program = kind == "Xid" and number in _OF_PROGRAMS
        mild = program or (kind == "Xid" and number in _WARNINGS) or bool(_NONFATAL.search(event.text))
        yield RULE.observed(
            window,
            device=f"{found['device']} {kind} {number}",
            severity="warning" if mild else "critical",
            confidence="likely" if program else "certain",
            summary=f"{kind} {number} on {found['device']}",
            explanation="Mostly a fault of the program; also of a GPU that fails."
            if program
            else "The GPU or its link is at fault, or its driver.",
            since_seconds=event.monotonic_seconds,
            line=event.text,
        )


RULE = LiveRule(
    id="gpu-xid",
    title="The NVIDIA driver reports an Xid",
    severity="critical; warning where the program is the likely cause or nothing was lost",
    check=check,
    recommended=advice(
        "look-up-xid",
        "Look the number up in NVIDIA's catalogue and do what it says: restart the program, reset the GPU, or drain "
        "the node.",
        "dmesg -T | grep -i xid",
        "nvidia-smi -q",
        link="https://docs.nvidia.com/deploy/xid-errors/",
    ),
)
