"""Why no node takes a pod, clause by clause of what the scheduler says. Pure."""

import re

from raybench.launchers.kubernetes.signs import Sign, Trouble, short

_CLAUSE = re.compile(r"(?P<count>[0-9]+) (?P<why>.+)")
_TAINT = re.compile(r"node\(s\) had (?:untolerated )?taint \{(?P<key>[^:}]*):? ?(?P<value>[^}]*)\}")


def unschedulable(sign: Sign) -> Trouble | None:
    """``0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 4 node(s) had untolerated taint {a: b}. ...``"""
    head = re.match(r"(?:[a-z ]+: )?0/([0-9]+) nodes are available(?:: (.*))?", sign.message, re.DOTALL)
    if head is None:
        what = f"no node takes it ({short(sign.message)})" if sign.message else "no node takes it"
        return Trouble(kind="unschedulable", subject=sign.subject, what=what, advice=DESCRIBE, waits=True)
    said = re.split(r"\.? (?:preemption: |no new claims)|\.$", head[2] or "")[0].rstrip(".")
    clauses = [_CLAUSE.fullmatch(part.strip()) for part in re.split(r", (?=[0-9]+ )", said)]
    told = [(int(one["count"]), one["why"]) for one in clauses if one]
    words = [f"{count} {_noun(count)} {_why(why)[0]}" for count, why in told]
    advice = list(dict.fromkeys(_why(why)[1] for _, why in sorted(told, reverse=True) if _why(why)[1]))
    what = f"none of {head[1]} nodes takes it: {'; '.join(words)}" if words else f"none of {head[1]} nodes takes it"
    return Trouble(
        kind="unschedulable", subject=sign.subject, what=what, advice=". ".join(advice) or DESCRIBE, waits=True
    )


DESCRIBE = "'kubectl describe pod' shows more"


def _noun(count: int) -> str:
    return "node" if count == 1 else "nodes"


def _why(clause: str) -> tuple[str, str]:
    """A clause of the scheduler in words, and what to do."""
    if found := re.fullmatch(r"Insufficient (\S+)", clause):
        name = found[1]
        if "/" in name:
            return f"without enough free {name}", (
                f"Wait for {name} to become free, ask for less, or check that its device plugin runs ('kubectl "
                f"describe node' lists {name} under Allocatable)"
            )
        return f"without enough free {name}", f"Ask for less {name} with --resource, or wait until it is free"
    if found := _TAINT.search(clause):
        key, value = found["key"].strip(), found["value"].strip()
        text = f"{key}={value}" if value else key
        if key in _CONDITIONS:
            return (
                f"not in order ({_CONDITIONS[key]})",
                "Look at the nodes: 'kubectl get nodes', 'kubectl describe node'",
            )
        return f"with a taint that is not tolerated ({text})", f"Add --toleration {text} where the run may use them"
    for pattern, words, advice in _CLAUSES:
        if re.search(pattern, clause):
            return words, advice
    return f"that say '{short(clause)}'", ""


_CONDITIONS = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable",
    "node.kubernetes.io/memory-pressure": "short of memory",
    "node.kubernetes.io/disk-pressure": "short of disk",
    "node.kubernetes.io/unschedulable": "cordoned",
}
_CLAUSES = (
    (
        r"taints? that the pod didn't tolerate",
        "with a taint that is not tolerated",
        "'kubectl describe node' shows the taints: add --toleration",
    ),
    (
        r"didn't match Pod's node affinity|didn't match node selector",
        "without the labels of --node-selector",
        "Compare 'kubectl get nodes --show-labels' with --node-selector",
    ),
    (
        r"anti-affinity",
        "that have a pod of this run already",
        "Each pod takes a node of its own: ask for fewer --nodes, or free nodes",
    ),
    (r"were unschedulable|unschedulable$", "cordoned", "'kubectl uncordon' them, or choose others"),
    (r"Too many pods", "that hold as many pods as they may", "Free pods there, or choose other nodes"),
    (r"free ports", "whose ports are taken", "Leave --host-network away, or choose other nodes"),
    (
        r"volume node affinity|unbound immediate PersistentVolumeClaims",
        "that do not reach its volume",
        "Look at its volumes: 'kubectl get pvc'",
    ),
)
