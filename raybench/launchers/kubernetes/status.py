"""What kubectl's JSON says of a run's objects: how far they are, and the signs by which trouble is known. Pure.

All of it is written by others: what has not the form that it should have is passed by.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from raybench.launchers.kubernetes.signs import Sign


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """``ended``: ``Complete`` or ``Failed`` once it has. ``suspended``: it waits for its queue."""

    ended: str = ""
    reason: str = ""
    suspended: bool = False


def status_of(made: dict[str, Any]) -> JobStatus:
    """Of a Job, or a RayJob of KubeRay."""
    status, spec = _part(made, "status"), _part(made, "spec")
    suspended = spec.get("suspend") is True
    if made.get("kind") == "RayJob":
        phase = str(status.get("jobDeploymentStatus", ""))
        reason = str(status.get("message") or status.get("reason") or "")
        ended = phase if phase in ("Complete", "Failed") else ""
        return JobStatus(ended=ended, reason=reason, suspended=suspended or phase == "Suspended")
    for condition in _list(status, "conditions"):
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            reason = ": ".join(filter(None, (str(condition.get("reason", "")), str(condition.get("message", "")))))
            return JobStatus(ended=str(condition["type"]), reason=reason)
    return JobStatus(suspended=suspended)


def pods_in_brief(pods: list[dict[str, Any]]) -> str:
    """``2 of 4 pods run, 2 wait``."""
    phases = [str(_part(pod, "status").get("phase", "Unknown")) for pod in pods]
    counts = {phase: phases.count(phase) for phase in dict.fromkeys(phases)}
    return ", ".join(f"{count} {phase}" for phase, count in counts.items()) or "no pod yet"


def names_of(pods: list[dict[str, Any]]) -> list[str]:
    """Names of pods."""
    return [str(_part(pod, "metadata").get("name", "")) for pod in pods]


def signs_of_pods(pods: list[dict[str, Any]]) -> Iterator[Sign]:
    """States of containers, the last end before that, and why a pod is not scheduled or was evicted."""
    for pod in pods:
        subject = f"pod/{_part(pod, 'metadata').get('name', '?')}"
        status = _part(pod, "status")
        if status.get("reason"):
            yield Sign(subject=subject, reason=str(status["reason"]), message=str(status.get("message", "")))
        for condition in _list(status, "conditions"):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                yield Sign(subject=subject, reason="Unschedulable", message=str(condition.get("message", "")))
        for key in ("initContainerStatuses", "containerStatuses"):
            for container in _list(status, key):
                yield from _signs_of_container(subject, container)


def _signs_of_container(subject: str, container: dict[str, Any]) -> Iterator[Sign]:
    for key in ("lastState", "state"):
        state = _part(container, key)
        for form in ("waiting", "terminated"):
            told = _part(state, form)
            if told.get("reason"):
                code = told.get("exitCode")
                yield Sign(
                    subject=subject,
                    reason=str(told["reason"]),
                    message=str(told.get("message", "")),
                    exit_code=code if isinstance(code, int) else None,
                )


def signs_of_events(events: list[dict[str, Any]], job: str) -> Iterator[Sign]:
    """Warnings about objects of the run: its own name, or that and a suffix."""
    for event in events:
        about = _part(event, "involvedObject") or _part(event, "regarding")
        name = str(about.get("name", ""))
        if event.get("type") == "Warning" and (
            name == job or name.startswith((f"{job}-", f"job-{job}-", f"rayjob-{job}-"))
        ):
            subject = f"{str(about.get('kind', 'object')).lower()}/{name}"
            message = str(event.get("message") or event.get("note") or "")
            yield Sign(subject=subject, reason=str(event.get("reason", "")), message=message)


def signs_of_workloads(workloads: list[dict[str, Any]], job: str) -> Iterator[Sign]:
    """Workloads of Kueue that stand for the run's job and have no quota."""
    for workload in workloads:
        owners = [str(one.get("name", "")) for one in _list(_part(workload, "metadata"), "ownerReferences")]
        if job not in owners:
            continue
        for condition in _list(_part(workload, "status"), "conditions"):
            if condition.get("type") == "QuotaReserved" and condition.get("status") == "False":
                yield Sign(subject=f"job/{job}", reason="QuotaReserved", message=str(condition.get("message", "")))


def items_of(answer: Any) -> list[dict[str, Any]]:
    """The objects of a list as kubectl prints it."""
    return _list(answer, "items") if isinstance(answer, dict) else []


def _part(made: dict[str, Any], name: str) -> dict[str, Any]:
    found = made.get(name)
    return found if isinstance(found, dict) else {}


def _list(made: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = made.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
