"""What goes on record of a run that was ended, from what its driver said and what the command saw."""

from collections.abc import Iterator
from dataclasses import dataclass

from raybench.errors import ClusterUnavailableError, ProblemFoundError, RaybenchError, UsageError
from raybench.execution.account import Account
from raybench.execution.decision import SILENT_SECONDS
from raybench.execution.incidents.incident import Incident
from raybench.execution.incidents.lookout import Lookout
from raybench.execution.incidents.sighting import conclusion
from raybench.execution.phases import LEAVING
from raybench.execution.ray_cluster.lost_nodes import head_incident


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEnd:
    """How the driver came to its end: ``asked`` to end in order, ``killed`` since it did not end, by a user's signal.

    ``driver`` names it, ``how`` says how it ended, and for ``silent`` seconds it had not said anything before.
    """

    driver: str
    how: str
    silent: float
    signals: int
    asked: bool
    killed: bool


def explain(account: Account, lookout: Lookout, end: DriverEnd) -> RaybenchError | None:
    """Put on record what ended the run, whoever noticed it. Returns the error where the run was refused."""
    record, error = account.record, account.failed.error if account.failed else None
    refused = isinstance(error, UsageError | ProblemFoundError)
    if refused and not (lookout.guilty and isinstance(error, ClusterUnavailableError)):
        return error
    if account.mark.phase == LEAVING and not (end.asked or account.failed or account.unreadable or record.incidents):
        return None  # all was brought home
    if (account.gone or end.killed) and account.failed is None:
        lookout.accuse()
    # a run that ended by itself explains its processes: they may then have ended as they like
    broken = record.incidents or end.asked or account.gone or end.killed or account.failed
    record.incidents = conclusion(
        [*record.incidents, *_head_lost(account, lookout)],
        lookout.guilty if broken else (),
        by_user=bool(end.signals) or (not end.asked and account.was_interrupted),
        error=None if error is None else str(error),
        unexplained=_unexplained(account, end),
        step=record.step or account.step,
    )
    return None


def _head_lost(account: Account, lookout: Lookout) -> Iterator[Incident]:
    """The head that does not answer, unless the driver said so, or a process of the run explains it."""
    record = account.record
    said = any(one.kind == "cluster-lost" for one in record.incidents)
    if lookout.head is not None and lookout.head_problem is not None and not lookout.guilty and not said:
        nodes = record.planned.plan.nodes if record.planned else ()
        yield head_incident(lookout.head.address, lookout.head_problem, nodes, record.step or account.step)


def _unexplained(account: Account, end: DriverEnd) -> str | None:
    """How the driver ended that did not say why; None where it came to its end."""
    if account.unreadable is not None:
        return f"a message of {end.driver} cannot be read, and what it said with it is lost ({account.unreadable})"
    if not end.killed:
        return f"{end.driver} {end.how}" if account.gone else None
    held = f"; it has not run for {end.silent:.0f} s, most likely inside Ray" if end.silent > SILENT_SECONDS else ""
    return (
        f"{end.driver} did not come to an end within {account.mark.limit_seconds:.0f} s of {account.mark.phase}{held}; "
        "no process of the run on this machine was seen to be stopped or to have ended"
    )
