"""What keeps a job from having pods at all: quotas, Kueue, rights, kinds that the cluster does not know. Pure."""

import re

from raybench.launchers.kubernetes.signs import Sign, Trouble, short


def _quota(sign: Sign) -> Trouble | None:
    found = re.search(r"exceeded quota: (\S+), requested: (.+?), used: (.+?), limited: (.+)", sign.message)
    if found:
        return Trouble(
            kind="quota",
            subject=sign.subject,
            what=f"the quota {found[1]} of the namespace does not allow it: requested {found[2]}, used {found[3]}, at "
            f"most {short(found[4])}",
            advice="Free what is used, ask for less, or have the quota raised",
        )
    found = re.search(r"failed quota: ([^:\s]+): must specify (.+)", sign.message)
    if found:
        return Trouble(
            kind="quota",
            subject=sign.subject,
            what=f"the quota {found[1]} of the namespace wants every pod to say {short(found[2])}",
            advice="Give them with --resource, such as --resource cpu=32 --resource memory=256Gi",
        )
    return None


_NO_ANSWER = (
    re.compile(r"The connection to the server (?P<where>\S+) was (?P<why>refused)"),
    re.compile(r"Unable to connect to the server: (?P<why>(?:.*?lookup (?P<where>\S+)[: ])?.+)"),
    re.compile(r"Get \\?\"https?://(?P<where>[^/\"]+)/[^\"]*\": (?P<why>dial tcp [^;]+|net/http: [^;]+)"),
)


def unreachable(sign: Sign) -> Trouble | None:
    """kubectl came to no API server. A webhook that the server itself does not reach is another matter."""
    found = next((found for one in _NO_ANSWER if (found := one.search(sign.message))), None)
    if found is None or "webhook" in sign.message:
        return None
    where = f" at {found['where']}" if found["where"] else ""
    return Trouble(
        kind="unreachable",
        subject=sign.subject,
        what=f"kubectl reaches no cluster{where} ({short(found['why'])})",
        advice="Name its configuration with KUBECONFIG, or choose one that answers: 'kubectl config get-contexts'",
    )


def missing_kind(sign: Sign) -> Trouble | None:
    """``no matches for kind "RayJob" in version "ray.io/v1"``, as kubectl says where a CRD is not installed."""
    found = re.search(r"no matches for kind \\?\"(\w+)\\?\" in version \\?\"([\w./-]+)\\?\"", sign.message)
    kind = found[1] if found else ""
    if not found and (plural := re.search(r"doesn't have a resource type \"(\w+)\"", sign.message)):
        kind = plural[1]
    # kubectl's cache of kinds is older than the removal of this one
    if not kind and (gone := re.search(r"could not find the requested resource \(\w+ (\w+)\.", sign.message)):
        kind = gone[1]
    if not kind:
        return None
    ray = kind.lower().startswith("ray")
    advice = "Install KubeRay's operator with its CRDs, or use --form pods" if ray else "Install its operator and CRDs"
    return Trouble(kind="missing-kind", subject=sign.subject, what=f"this cluster does not know {kind}", advice=advice)


def forbidden(sign: Sign) -> Trouble | None:
    """``pods "a" is forbidden: exceeded quota: ...``, or whatever else an admission refuses."""
    quota = _quota(sign)
    if quota is not None:
        return quota
    found = re.search(r"is forbidden: (.+)", sign.message)
    if found is None:
        return None
    return Trouble(
        kind="forbidden",
        subject=sign.subject,
        what=f"the cluster refuses it: {short(found[1])}",
        advice="Ask who runs the cluster for the right, or for a policy that allows IPC_LOCK",
    )


def not_admitted(sign: Sign) -> Trouble | None:
    """Conditions of a Workload of Kueue: ``QuotaReserved`` is False."""
    text = sign.message
    never = re.search(
        r"insufficient quota for (\S+) in flavor (\S+), (?:.*?)(?:maximum capacity|nominal quota)[^(]*\(([^)]+)\)", text
    )
    if never:
        what = f"Kueue never admits it: it asks for more {never[1]} than flavor {never[2]} has ({never[3]})"
        return Trouble(
            kind="not-admitted", subject=sign.subject, what=what, advice="Ask for less, or have the quota raised"
        )
    waits = re.search(r"insufficient unused quota for (\S+) in flavor ([^\s,]+), (\S+) more needed", text)
    if waits:
        what = f"it waits in Kueue's queue: {waits[3]} more {waits[1]} of flavor {waits[2]} must become free"
        advice = "'kubectl get workloads' shows who is before it"
        return Trouble(kind="not-admitted", subject=sign.subject, what=what, advice=advice, waits=True)
    if re.search(r"(LocalQueue|ClusterQueue) \S+ (?:doesn't exist|is inactive|is stopped)", text):
        return Trouble(
            kind="not-admitted",
            subject=sign.subject,
            what=f"Kueue does not take it: {short(text)}",
            advice="Check --queue: 'kubectl get localqueues' lists those of the namespace",
        )
    what = f"Kueue has not admitted it ({short(text)})" if text else "Kueue has not admitted it"
    return Trouble(
        kind="not-admitted",
        subject=sign.subject,
        what=what,
        advice="'kubectl describe workload' shows more",
        waits=True,
    )
