"""Why a pod does not start or has ended, by what Kubernetes says of it: each with what to do. Pure.

A sign is a pair (reason, message): of an event, of a container's state, of a condition, or of what kubectl printed. A
sign that no rule knows says nothing, and a message that a rule does not know in full is quoted as it is.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from raybench.launchers.kubernetes.admission import forbidden, missing_kind, not_admitted, unreachable
from raybench.launchers.kubernetes.scheduling import DESCRIBE, unschedulable
from raybench.launchers.kubernetes.signs import Kind, Sign, Trouble, short


def troubles(signs: Iterable[Sign]) -> list[Trouble]:
    """What the signs mean, each thing once; what ended a container goes before that it is started again."""
    found: dict[tuple[str, str, str], Trouble] = {}
    for sign in signs:
        for trouble in _of(sign):
            found.setdefault((trouble.subject, trouble.kind, trouble.what), trouble)
    named = {one.subject for one in found.values() if one.kind in ("out-of-memory", "killed", "failed")}
    precise = {one.subject for one in found.values() if one.kind == "image" and one.what != _PLAIN_IMAGE}
    kept = [
        one
        for one in found.values()
        if not (one.kind == "crash-loop" and one.subject in named)
        and not (one.what == _PLAIN_IMAGE and one.subject in precise)
    ]
    return sorted(kept, key=lambda one: one.waits)


def _of(sign: Sign) -> Iterator[Trouble]:
    for reasons, rule in _RULES:
        if sign.reason in reasons or not reasons:
            trouble = rule(sign)
            if trouble is not None:
                yield trouble
                return


def _image(sign: Sign) -> Trouble | None:
    """``ErrImagePull``, ``ImagePullBackOff``, and the event ``Failed`` where it is about an image."""
    text = sign.message
    if sign.reason == "Failed" and not re.search(
        "[Ff]ailed to pull image|ErrImage|ImagePullBackOff|InvalidImageName", text
    ):
        return None
    for pattern, what, advice in _IMAGES:
        if re.search(pattern, text):
            return Trouble(kind="image", subject=sign.subject, what=f"{what} ({short(text)})", advice=advice)
    if sign.reason == "InvalidImageName" or "InvalidImageName" in text:
        return Trouble(
            kind="image", subject=sign.subject, what="the name of its image is invalid", advice="correct --image"
        )
    advice = "See the message of the pull: 'kubectl describe pod' shows it"
    return Trouble(kind="image", subject=sign.subject, what=_PLAIN_IMAGE, advice=advice)


_PLAIN_IMAGE = "its image cannot be pulled"
_IMAGES = (
    (
        r"pull access denied|[Uu]nauthorized|authorization failed|403 Forbidden|denied: |authentication required",
        "its image may not be pulled, or is not there under that name",
        "Give --image-pull-secret, and check the name of --image",
    ),
    (
        r"manifest unknown|manifest for \S+ not found|: not found|NotFound|no such manifest|name unknown",
        "its image is not in the registry",
        "Build and push it from deploy/Dockerfile of the checkout, or correct --image",
    ),
    (
        r"toomanyrequests|429 Too Many",
        "the registry refuses more pulls for now",
        "Pull with an account: --image-pull-secret",
    ),
    (
        r"no match for platform|no matching manifest for",
        "its image is not there for the processors of the node",
        "Build it for the platform of the nodes (docker build --platform linux/amd64)",
    ),
    (
        r"no such host|i/o timeout|connection refused|x509|TLS handshake|network is unreachable|deadline exceeded",
        "its node does not reach the registry",
        "Check DNS, proxy and certificates of the nodes towards the registry",
    ),
    (r"no space left on device", "its node has no space left for the image", "Free its disk, or use another node"),
)


def _ended(sign: Sign) -> Trouble | None:
    """A container that has ended. Only the reason OOMKilled proves it: 137 alone is SIGKILL, whoever sent it."""
    if sign.reason == "OOMKilled":
        return Trouble(
            kind="out-of-memory",
            subject=sign.subject,
            what="it used more memory than it may, and the kernel ended it (OOMKilled)",
            advice="Give more with --resource memory=..., of which /dev/shm is a part (--shm)",
        )
    if sign.exit_code in (None, 0, 1, 2, 3) and sign.reason != "StartError":
        return None  # exit codes of raybench: its own result says more
    if sign.exit_code in (137, 143):
        name = "SIGKILL" if sign.exit_code == 137 else "SIGTERM"
        return Trouble(
            kind="killed",
            subject=sign.subject,
            what=f"it was ended by {name} (exit code {sign.exit_code}); by whom is not told",
            advice="Look at the events of pod and node: eviction, deletion, a probe, the end of the node",
        )
    return Trouble(
        kind="failed",
        subject=sign.subject,
        what=f"it ended with exit code {sign.exit_code}" + (f" ({short(sign.message)})" if sign.message else ""),
        advice="Its log says more: 'kubectl logs'",
    )


def _fixed(kind: Kind, what: str, advice: str) -> Callable[[Sign], Trouble]:
    return lambda sign: Trouble(
        kind=kind,
        subject=sign.subject,
        what=what + (f" ({short(sign.message)})" if sign.message else ""),
        advice=advice,
    )


_RULES: tuple[tuple[frozenset[str], Callable[[Sign], Trouble | None]], ...] = (
    (frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "Failed"}), _image),
    (frozenset({"FailedScheduling", "Unschedulable"}), unschedulable),
    (frozenset({"OOMKilled", "Error", "ContainerCannotRun", "StartError", "Completed"}), _ended),
    (
        frozenset({"CrashLoopBackOff"}),
        _fixed("crash-loop", "it ends again and again after its start", "Its log says why: 'kubectl logs --previous'"),
    ),
    (
        frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}),
        _fixed("container", "its container cannot be made", DESCRIBE),
    ),
    (frozenset({"FailedMount", "FailedAttachVolume"}), _fixed("volume", "its volume cannot be mounted", DESCRIBE)),
    (
        frozenset({"FailedCreatePodSandBox"}),
        _fixed("sandbox", "its network cannot be made", "Look at the CNI plugin of its node"),
    ),
    (
        frozenset({"Evicted"}),
        _fixed(
            "evicted",
            "its node has evicted it",
            "Look at the node's memory and disk; ask for what the run needs with --resource",
        ),
    ),
    (frozenset({"DeadlineExceeded"}), _fixed("deadline", "its time limit is over", "Raise --time-limit")),
    (frozenset({"FailedCreate", "Forbidden"}), forbidden),
    (frozenset({"QuotaReserved", "Inadmissible", "Pending"}), not_admitted),
    (frozenset(), lambda sign: missing_kind(sign) if sign.reason == "kubectl" else None),
)


def of_kubectl(text: str) -> Trouble | None:
    """What kubectl refused, by what it printed; None where it is of another kind."""
    sign = Sign(subject="kubectl", reason="kubectl", message=" ".join(text.split()))
    return unreachable(sign) or missing_kind(sign) or forbidden(sign)
