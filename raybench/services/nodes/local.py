"""This node judged by itself within seconds, for a prolog or a health check: no Ansible, Ray or torch."""

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from raybench.documents.node_actions import NodeActions
from raybench.documents.preflight import PreflightHost, PreflightReport
from raybench.errors import UsageError
from raybench.hosts.local_probe import probe_here
from raybench.preflight.probe_answer import unpack
from raybench.preflight.report import BETWEEN_HOSTS, BEYOND, Gathered, build_report
from raybench.services.nodes.judged import ActOptions
from raybench.services.preflight_expectations import expectations_from

_MOST_LINE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """Which checks, within which time in seconds, and for whom the exit code is.

    ``caller`` is ``prolog``: Slurm drains the node for any code but 0, so that unknown is 0; ``admin``: 3 is unknown.
    """

    limit_seconds: float = 8.0
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    expect: Sequence[str] = ()
    caller: Literal["admin", "prolog"] = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCheck:
    """What was found. ``seconds`` is what probe and judgement took."""

    report: PreflightReport
    seconds: float
    caller: Literal["admin", "prolog"]

    @property
    def host(self) -> PreflightHost:
        """This machine."""
        return self.report.hosts[0]

    @property
    def state(self) -> str:
        """That of the node."""
        return self.host.node.state if self.host.node is not None else "unknown"

    @property
    def line(self) -> str:
        """``ERROR: raybench: gpu-rows: 2 rows failed``: the first word is as NHC has it."""
        reasons = self.host.node.reasons if self.host.node is not None else ()
        told = f": {reasons[0].check}: {' '.join(reasons[0].seen.split())}"[:_MOST_LINE] if reasons else ""
        more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        word = {"drain": "ERROR", "unknown": "UNKNOWN", "degraded": "WARNING"}.get(self.state, "OK")
        return f"{word}: raybench: {self.state}{told}{more} ({self.seconds:.1f} s)"

    @property
    def exit_code(self) -> int:
        """0 where jobs may run, 1 where they must not; 3 where that is unknown, which a prolog lets pass."""
        unknown = 0 if self.caller == "prolog" else 3
        return {"drain": 1, "unknown": unknown}.get(self.state, 0)


def check_here(options: LocalOptions) -> LocalCheck:
    """Probe and judge this machine. Raises UsageError for checks and expectations that are none."""
    from raybench.preflight.checks import selected

    try:
        selected([one for one in options.only if one not in BEYOND], [one for one in options.skip if one not in BEYOND])
    except ValueError as error:
        raise UsageError(str(error)) from error
    begun, sent = time.monotonic(), time.time()
    packed, reason = probe_here(options.limit_seconds, expectations=expectations_from(options.expect))
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()  # what slurmd calls it, where slurmd calls us
    gathered = Gathered(host=name, reason=reason)
    if packed:
        try:
            gathered = Gathered(host=name, facts=unpack(packed), sent_at=sent, received_at=time.time())
        except ValueError as error:
            gathered = Gathered(host=name, reason=str(error))
    report = build_report([gathered], only=options.only, skip=(*options.skip, *BETWEEN_HOSTS), finished_at=time.time())
    return LocalCheck(report=report, seconds=time.monotonic() - begun, caller=options.caller)


def drain_here(found: LocalCheck, options: ActOptions) -> NodeActions:
    """Have Slurm drain or resume this node alone, by the same rules as for many. Raises as ``slurm.act``."""
    from raybench.services.nodes.slurm import act

    return act(found.report, options)
