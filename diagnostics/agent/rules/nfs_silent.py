"""An NFS server does not answer.

Symptom: ``nfs: server ... not responding`` in the kernel's log.

Why: the server or the network to it is down or overloaded. Whoever reads or writes there hangs in the kernel and cannot
be killed: data loaders, checkpoints, Python's imports.

Not when: the server answered again within the last minute (``nfs: server ... OK``).

Source: the kernel's net/sunrpc/clnt.c.
"""

import re
from collections.abc import Iterator

from diagnostics.agent.messages import Event
from diagnostics.agent.rules.base import LiveRule, Observed, advice
from diagnostics.agent.window import Window

LOOKED_AT_SECONDS = 60.0
_SILENT = re.compile(r"nfs: server (?P<server>\S{1,255}) not responding")
_BACK = re.compile(r"nfs: server (?P<server>\S{1,255}) OK")


def check(window: Window) -> Iterator[Observed]:
    """One finding a server that has not answered since."""
    silent: dict[str, Event] = {}
    for event in window.recent_events(LOOKED_AT_SECONDS):
        if found := _SILENT.search(event.text):
            silent.setdefault(found["server"], event)
        elif found := _BACK.search(event.text):
            silent.pop(found["server"], None)
    for server, event in silent.items():
        yield RULE.observed(
            window,
            device=server,
            summary=f"the NFS server {server} does not answer",
            explanation="Whoever reads or writes there hangs in the kernel.",
            since_seconds=event.monotonic_seconds,
            line=event.text,
        )


RULE = LiveRule(
    id="nfs-silent",
    title="An NFS server does not answer",
    severity="critical",
    check=check,
    recommended=advice(
        "check-nfs",
        "See whether the server is up and reachable; processes in state D wait for it.",
        "nfsstat -m; rpcinfo -t <server> nfs",
        "ps -eo pid,stat,wchan,comm | grep ' D'",
    ),
)
