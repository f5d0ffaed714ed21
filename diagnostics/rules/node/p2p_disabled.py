"""GPUs of one machine do not talk directly.

Symptom: ``via SHM/direct/direct`` between GPUs of one host; ``P2P is disabled between ... connected GPUs``;
NCCL_P2P_DISABLE is set.

Why: peer-to-peer access is switched off by a variable, or refused by the driver (IOMMU, ACS, MIG, virtual machine, a
GPU without the feature), so that data goes through host memory.

Not when: consumer and many PCIe GPUs simply lack it, or cross a processor: info. NCCL_P2P_LEVEL above LOC is a
choice: info.

Source: NCCL user guide, NCCL_P2P_DISABLE, NCCL_P2P_LEVEL; NCCL's paths.cc.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found


def check(facts: JobFacts) -> Outcome:
    """Found where a variable or NCCL itself says so, or where shared memory carries local channels."""
    refused = facts.of("p2p-refused")
    nvlink = [event for event in refused if "link" in event.fields]
    if nvlink:
        fatal = (
            any(event.origin.level == "WARN" for event in nvlink) and facts.value_of("NCCL_IGNORE_DISABLED_P2P") != "1"
        )
        return found(
            conclude(
                facts,
                nvlink,
                severity="critical" if fatal else "warning",
                summary="P2P is disabled between GPUs that NVLink connects",
                explanation=(
                    "A fault of hardware or driver: Fabric Manager not running, MIG, IOMMU or ACS. "
                    "NCCL stops here by default."
                ),
                actions=("check-fabric-manager", "enable-p2p"),
                occurrences=len(nvlink),
            )
        )
    switched = _switched_off(facts)
    shared = [channel.event for channel in facts.channels if channel.transport == "SHM"]
    if switched:
        return found(
            conclude(
                facts,
                [switched, *shared[:1]],
                severity="warning",
                confidence="certain" if switched.kind == "variable" else "likely",
                summary=(
                    "Direct transfers between GPUs of a machine are switched off by NCCL_P2P_DISABLE or NCCL_P2P_LEVEL"
                ),
                explanation="Data between GPUs of one machine goes through host memory. Often a leftover of debugging.",
            )
        )
    if not shared and not refused:
        return CLEAR
    return found(
        conclude(
            facts,
            (refused or shared)[:4],
            severity="info",
            summary="Some GPUs of a machine exchange data through host memory (SHM) instead of directly",
            explanation=(
                "Normal for GPUs without peer-to-peer support and across processors; on machines with NVLink it is not."
            ),
            occurrences=sum(channel.count for channel in facts.channels if channel.transport == "SHM") or len(refused),
        )
    )


def _switched_off(facts: JobFacts) -> Event | None:
    if facts.value_of("NCCL_P2P_DISABLE") == "1" or facts.typed_variables.get("NCCL_P2P_DISABLE") == "1":
        return facts.variable_event("NCCL_P2P_DISABLE")
    if facts.value_of("NCCL_P2P_LEVEL") in ("LOC", "0"):
        return facts.variable_event("NCCL_P2P_LEVEL")
    return None


RULE = Rule(
    id="p2p-disabled",
    title="GPUs of a machine do not talk directly",
    severity="warning; critical where NVLink is concerned; info where the hardware lacks it",
    actions=("enable-p2p", "check-acs"),
    check=check,
    slow=True,
)
