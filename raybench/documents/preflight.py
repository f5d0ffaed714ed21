"""What a preflight saw and judged: ``preflight.json`` of ``raybench preflight`` and ``preflight.yml``.

Schema ``raybench.preflight/1``: keys are added, never renamed or removed. The standard library is all that it needs,
since the playbook writes it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from raybench.documents.plain import Json, PlainDocument, PlainPart
from raybench.verdicts import NODE_STATES, CheckVerdict, NodeEffect, NodeState, worst

TESTS_DONE = "test-run"  # the check whether the active tests of a host could be done
# Of a figure: measured; nothing here to test; cannot be tested here; a program's own warning; an error of the device
# or of a program that tested it; the test itself broke.
FigureStatus = Literal["ok", "skipped", "missing", "warned", "failed", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult(PlainPart):
    """One check of one host: what was seen, what was expected and on what basis, and what to do.

    ``effect`` and ``action`` are what it means for the node where the check knows better than the table of checks
    (``raybench/preflight/node_table.py``); they are written where they are set.
    """

    check: str
    verdict: CheckVerdict
    seen: str = ""
    expected: str = ""
    basis: str = ""
    advice: str = ""
    effect: NodeEffect | Literal[""] = ""
    action: str = ""

    def to_json(self) -> Json:
        """The result, without ``effect`` and ``action`` where the table has them."""
        written = PlainPart.to_json(self)
        return {key: value for key, value in written.items() if value or key not in {"effect", "action"}}

    @property
    def concern(self) -> str:
        """``gpu`` of ``gpu-count``."""
        return self.check.partition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReason(PlainPart):
    """Why a node is not healthy. ``action`` is a word of the table of actions, ``command`` what to type for it."""

    check: str
    verdict: CheckVerdict
    effect: NodeEffect
    seen: str
    action: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVerdict(PlainPart):
    """Whether a node shall get jobs, the gravest reasons first. ``since``: when it was first seen so, where known."""

    state: NodeState
    reasons: tuple[NodeReason, ...] = ()
    since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigure(PlainPart):
    """What an active test said of one ``case`` on one device of a host.

    ``samples`` are in ``unit``. Of ``checked`` elements ``wrong`` were not as they must be. Between devices figures are
    compared only where ``case``, ``setting`` and the device's ``model`` are the same.
    """

    test: str
    device: str = ""
    case: str = ""
    status: FigureStatus = "ok"
    reason: str = ""
    model: str = ""
    setting: str = ""
    unit: str = ""
    samples: tuple[float, ...] = ()
    checked: int = 0
    wrong: int = 0
    detail: str = ""

    @property
    def name(self) -> str:
        """``gpu3 bf16``; of a host's only device without its name."""
        return " ".join(part for part in (self.device, self.case) if part and part != "host")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightHost(PlainPart):
    """One host with every check. One that was not reached has the ``reason``, and that as its only check.

    ``tests`` are the figures of its active tests; none at level 1. ``boot_id`` is what its kernel drew when it booted,
    ``rebooted`` whether that is another one than when it last answered, by the history that was given.
    """

    host: str
    hostname: str | None
    verdict: CheckVerdict
    reached: bool
    reason: str
    group: str
    probe_seconds: float | None
    checks: tuple[CheckResult, ...]
    node: NodeVerdict | None = None
    tests: tuple[NodeFigure, ...] = ()
    boot_id: str = ""
    rebooted: bool = False

    def contradiction(self) -> str | None:
        """Whether it is as good as the worst of its checks, and no node is healthy that did not answer."""
        if self.node is not None and self.node.state == "healthy" and not self.reached:
            return "it did not answer, and its node is called healthy"
        found = worst(one.verdict for one in self.checks)
        return None if found == self.verdict else f"its verdict is {self.verdict}, and the worst of its checks {found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightSummary(PlainPart):
    """Counts, and the names of hosts with problems. ``checks`` are how many have each verdict.

    ``nodes`` are the hosts by the state of their node; empty in a report of before there was one.
    """

    hosts: int
    unreachable: tuple[str, ...]
    failed_hosts: tuple[str, ...]
    warned_hosts: tuple[str, ...]
    checks: Mapping[str, int]
    nodes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftEntry(PlainPart):
    """An attribute in which hosts of a group differ. ``values`` are the hosts by value."""

    attribute: str
    kind: str
    group: str
    verdict: CheckVerdict
    majority: str | None
    odd_hosts: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightReport(PlainDocument):
    """The whole preflight. ``pairs`` are none so far: what is measured between hosts is in ``fabric.json``.

    ``level`` 1 has only looked, 2 has tested each node for a minute, 3 for several.
    """

    SCHEMA: ClassVar[str] = "raybench.preflight/1"
    verdict: CheckVerdict
    status: Literal["complete", "partial"]
    started_at: str
    finished_at: str
    summary: PreflightSummary
    hosts: tuple[PreflightHost, ...]
    drift: tuple[DriftEntry, ...]
    pairs: tuple[Any, ...] = ()
    level: int = 1

    def contradiction(self) -> str | None:
        """Whether it is as good as the worst of its hosts, and its summary theirs."""
        found = worst(host.verdict for host in self.hosts)
        if found != self.verdict:
            return f"its verdict is {self.verdict}, and the worst of its hosts {found}"
        if self.status == "complete" and not all(host.reached for host in self.hosts):
            return "it says complete, and a host was not reached"
        counted, said = summary_of(self.hosts), self.summary
        names = ("hosts", "unreachable", "failed_hosts", "warned_hosts", "checks", "nodes")
        same = all(getattr(counted, name) == getattr(said, name) for name in names)
        return None if same else "its summary is not that of its hosts"

    @property
    def exit_code(self) -> int:
        """0 clean; 1 a check failed; 3 none did, but a host was not reached, a check of ours broke, or a test is open.

        A test whose result is not known leaves its node unknown; a speed that cannot be compared does not.
        """
        checks = [one for host in self.hosts if host.reached for one in host.checks]
        if any(one.verdict == "fail" for one in checks):
            return 1
        if any((one.check, one.verdict) == (TESTS_DONE, "unknown") for one in checks) or self._untested:
            return 3
        return 3 if self.status != "complete" or self.verdict in {"error", "fail"} else 0

    @property
    def _untested(self) -> bool:
        """Whether a node is unknown for one of its active tests, whichever it is."""
        reasons = (reason for host in self.hosts if host.reached and host.node for reason in host.node.reasons)
        return any(reason.effect == "unknown" and reason.check.startswith("test-") for reason in reasons)


def summary_of(hosts: tuple[PreflightHost, ...]) -> PreflightSummary:
    """What the hosts' own verdicts add up to."""
    verdicts = Counter(one.verdict for host in hosts for one in host.checks)
    failed, broken, warned = (
        tuple(host.host for host in hosts if host.verdict == verdict) for verdict in ("fail", "error", "warn")
    )
    return PreflightSummary(
        hosts=len(hosts),
        unreachable=tuple(host.host for host in hosts if not host.reached),
        failed_hosts=failed + broken,
        warned_hosts=warned,
        checks=dict(sorted(verdicts.items())),
        nodes=_by_state(hosts),
    )


def _by_state(hosts: tuple[PreflightHost, ...]) -> dict[str, tuple[str, ...]]:
    judged = [(host.host, host.node.state) for host in hosts if host.node is not None]
    return {state: tuple(name for name, own in judged if own == state) for state in NODE_STATES} if judged else {}
