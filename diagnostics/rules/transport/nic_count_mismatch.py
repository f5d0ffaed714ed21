"""Nodes use different numbers of NICs, or fewer than the machine has.

Symptom: the ``NET/IB : Using`` lists of two hosts differ in length; ``Detected mixed local Net device counts``;
aws-ofi-nccl ``found 1 nics`` on a machine with four.

Why: a port is down or flapping, a NIC fell off the bus, or the scheduler gave the job a part only.

Not when: a rank that uses one GPU was given its share of NICs (info); the list was shortened by the author of the
log.

Source: NCCL's net_ib.cc and, from 2.30.3 on, its own comparison.
"""

from collections.abc import Mapping

from diagnostics.events import Event
from diagnostics.facts import JobFacts, Process
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, answer, conclude, found, stopped_at

_EFA_COUNT: Mapping[str, int] = {"p4d": 4, "p4de": 4, "p5": 32, "p5e": 32, "p5en": 16, "p6": 8}


def check(facts: JobFacts) -> Outcome:
    """Found where hosts' lists differ, where NCCL says so, or where a platform is known to have more."""
    stated = facts.of("net-device-mismatch")
    if stated:
        fields = stated[0].fields
        fatal = any(event.origin.level == "WARN" for event in stated)
        return found(
            conclude(
                facts,
                stated,
                severity="critical" if fatal else "warning",
                summary=f"Ranks have different numbers of NICs: between {fields['min']} and {fields['max']}",
                explanation=(
                    "NCCL compared the ranks itself. A node with fewer NICs slows down all, or fails initialisation."
                ),
            )
        )
    if merged := stopped_at(facts, "nic-count-differs"):
        return answer(
            facts,
            merged,
            severity="critical",
            summary="Two ranks have merged NICs of different numbers of ports, and NCCL stops there",
            explanation="NCCL 2.20 to 2.23 joins the ports of a NIC into one device, and both sides need as many: a "
            "port is down on one of them, or NCCL_IB_HCA takes another set. NCCL_IB_MERGE_NICS=0 does without.",
        )
    lists = _by_host(facts)
    sizes = {host: max(len(process.devices or ()) for process in found_) for host, found_ in lists.items()}
    if len(set(sizes.values())) > 1 and min(sizes.values()) > 0:
        return _differing(facts, lists, sizes)
    return _fewer_than_platform(facts)


def _by_host(facts: JobFacts) -> dict[str, list[Process]]:
    hosts: dict[str, list[Process]] = {}
    for process in facts.processes.values():
        event = process.devices_event
        if (
            process.devices is not None
            and process.host
            and event is not None
            and "..." not in event.text
            and "…" not in event.text
        ):
            hosts.setdefault(process.host, []).append(process)
    return hosts


def _differing(facts: JobFacts, lists: Mapping[str, list[Process]], sizes: Mapping[str, int]) -> Outcome:
    most = max(sizes.values())
    full = next(host for host, size in sizes.items() if size == most)
    short = sorted(host for host, size in sizes.items() if size < most)
    names = {device.name for process in lists[full] for device in process.devices or ()}
    there = {device.name for process in lists[short[0]] for device in process.devices or ()}
    events: list[Event] = [e for host in (short[0], full) for p in lists[host][:1] if (e := p.devices_event)]
    gone = sorted(names - there)
    return found(
        conclude(
            facts,
            events,
            severity="warning",
            summary=f"Nodes use different numbers of NICs: {short[0]} {sizes[short[0]]}, {full} {most}"
            + (f"; {', '.join(gone[:8])} missing on {short[0]}" if gone else ""),
            explanation="A missing NIC usually is a port that is down or a NIC that fell off the bus. "
            "Collectives run at the "
            "pace of the node with fewer NICs, or fail while connecting.",
            hosts=short,
            actions=("count-adapters", "check-port"),
        )
    )


def _fewer_than_platform(facts: JobFacts) -> Outcome:
    platform = next((e for e in facts.of("ofi-platform")), None)
    provider = next((e for e in facts.of("ofi-provider") if "nics" in e.fields), None)
    if platform is None or provider is None:
        return CLEAR
    match = compiled(r"^(p\d[a-z]*)").match(platform.fields["platform"].lower())
    expected = _EFA_COUNT.get(match[1], 0) if match else 0
    seen = provider.number("nics") or 0
    if not seen or seen >= expected:
        return CLEAR
    local = {member.local_ranks for c in facts.communicators for member in c.members.values() if member.local_ranks}
    share = bool(local) and max(local) * expected <= seen * 8
    return found(
        conclude(
            facts,
            [platform, provider],
            severity="info" if share or not local else "warning",
            summary=f"{seen} of the platform's {expected} EFA NICs in use",
            explanation=(
                "Fitting for a job that uses a part of the machine; with all eight GPUs it would cap the bandwidth."
            ),
        )
    )


RULE = Rule(
    id="nic-count-mismatch",
    title="Nodes use different numbers of NICs",
    severity="warning, critical where NCCL stops",
    actions=("count-adapters", "select-adapters"),
    check=check,
)
