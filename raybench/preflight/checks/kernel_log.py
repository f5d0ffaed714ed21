"""The kernel's log: faults of GPUs, NICs and the host."""

import re
from collections import Counter
from collections.abc import Sequence

from raybench.preflight.host_view import HostView
from raybench.preflight.kernel_alarms import AMD_LOG, GPU_LOG, HOST_LOG, NIC_LOG, KernelAlarm
from raybench.preflight.parsers.system import KernelMessage
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

_ADDRESS = re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b|\bPCI:[0-9a-fA-F:.]+\b")
_MOST = 8
# What a job does to itself: no reason to think less of its node.
_OF_JOBS = {"out of memory", "work on a GPU timed out", "a program accessed a GPU beyond its memory"}


def gpu_messages(view: HostView) -> Judgement:
    """What NVIDIA's driver says beside Xids: GPUs that it cannot start, NVLinks that stay down, a reboot."""
    if not view.has_gpu_hardware or view.has_only_amd_gpus:
        return skipped("no NVIDIA GPU here")
    return _judged(view, GPU_LOG)


def nic_messages(view: HostView) -> Judgement:
    """What drivers of NICs say: cables and modules in error, firmware that failed, commands that timed out."""
    if not view.has_rdma and not view.interfaces and view.status("lspci") != "ok":
        return skipped("no NIC here")
    return _judged(view, NIC_LOG)


def amd_messages(view: HostView) -> Judgement:
    """What AMD's driver says: memory and XGMI errors, work that hangs, GPUs that cannot be reset."""
    if not view.has_amd_gpus:
        return skipped("no AMD GPU here")
    return _judged(view, AMD_LOG)


def host_messages(view: HostView) -> Judgement:
    """Machine checks, PCIe and memory errors, CPUs that stand still, disks and file systems, killed processes."""
    return _judged(view, HOST_LOG)


def _judged(view: HostView, alarms: Sequence[KernelAlarm]) -> Judgement:
    found = _found(view.kernel_messages, alarms)
    hours = f"the last {view.expected.log_hours:g} h"
    if not found:
        return passed(f"nothing in {hours}", "no errors")
    seen = "; ".join(_told(alarm, whats) for alarm, whats in list(found.items())[:_MOST])
    advice = "; ".join(dict.fromkeys(alarm.advice for alarm in found))
    breaks = any(alarm.breaks for alarm in found)
    said = (failed if breaks else warned)(seen, "no errors", f"dmesg of {hours}", advice)
    return said.for_node(effect="nothing") if {alarm.name for alarm in found} <= _OF_JOBS else said


def _told(alarm: KernelAlarm, whats: Counter[str]) -> str:
    count = whats.total()
    named = ", ".join(what for what in whats if what)
    return f"{alarm.name}{f' ({count} times)' if count > 1 else ''}{f': {named[:200]}' if named else ''}"


def _found(messages: Sequence[KernelMessage], alarms: Sequence[KernelAlarm]) -> dict[KernelAlarm, Counter[str]]:
    """Alarms in the order of their table, with what they are about; those that a later line calls over are left out."""
    found: dict[KernelAlarm, dict[str, Counter[str]]] = {}
    for message in messages:
        for alarm in alarms:
            match = alarm.expression.search(message.text)
            if match:
                of = _object(message.text, match)
                found.setdefault(alarm, {}).setdefault(of, Counter())[_what(message.text, match)] += 1
                break
            ended = alarm.over.search(message.text) if alarm.over else None
            if ended:
                found.get(alarm, {}).pop(_object(message.text, ended), None)
    merged = {alarm: sum(found[alarm].values(), Counter()) for alarm in alarms if found.get(alarm)}
    return {alarm: whats for alarm, whats in merged.items() if whats.total() >= alarm.least}


def _object(text: str, match: re.Match[str]) -> str:
    address = _ADDRESS.search(text)
    return f"{address[0] if address else ''} {match.groupdict().get('object') or ''}"


def _what(text: str, match: re.Match[str]) -> str:
    address = _ADDRESS.search(text)
    groups = match.groupdict()
    words = [address[0] if address else "", groups.get("what") or "", "" if address else groups.get("object") or ""]
    return " ".join(word.strip()[:120] for word in words if word)
