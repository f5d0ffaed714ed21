"""The kernel's log: faults of GPUs, and of the host."""

import re
from collections import Counter

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.system import xids_of
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

# NVIDIA's Xid catalogue, as AzureHPC, scitix/sichek and gpud act on it: the GPU or its link is not to be used further.
FATAL_XIDS = frozenset({46, 48, 54, 61, 62, 63, 64, 68, 69, 73, 74, 79, 81, 92, 94, 95, 109, 110, 119, 120, 140, 143})
# Of an application: an illegal access of its own, a page fault, a job that was stopped.
APPLICATION_XIDS = frozenset({13, 31, 43, 45})
_XID_ADVICE = {
    48: "uncorrectable ECC error: reset the GPU; see gpu-rows",
    63: "a row was remapped: reset the GPU when idle",
    64: "a row could not be remapped: replace the GPU",
    74: "NVLink error: check gpu-nvlink and the NVSwitches, reset the GPUs, reseat or replace what returns",
    79: "the GPU has fallen off the bus: power-cycle the host; if it returns, reseat or replace the GPU",
    94: "contained ECC error: the application is lost, reset the GPU when idle",
    95: "uncontained ECC error: drain the host and reset the GPU",
    119: "GSP does not answer: reset the GPU or reboot; keep driver and firmware current",
    120: "GSP error: reset the GPU or reboot; keep driver and firmware current",
}
_HOST_MESSAGES = (
    (
        r"Hardware Error.*(?:[Uu]ncorrected|severity: (?:fatal|recoverable))|Machine [Cc]heck Exception",
        "machine check",
        True,
    ),
    (r"Hardware Error.*Machine [Cc]heck", "machine check logged", False),  # of corrected errors as well
    (r"Hardware Error.*(?:[Cc]orrected|severity: corrected)", "corrected hardware error", False),
    (r"EDAC .*\bUE\b", "uncorrected memory error", True),
    (r"I/O error", "I/O error", False),
    (r"blocked for more than \d+ seconds", "hung task", False),
    (r"Out of memory: Killed|oom-kill:|invoked oom-killer", "out of memory", False),
    (r"AER: .*(?:[Uu]ncorrect|Fatal)|PCIe Bus Error: severity=Uncorrect", "uncorrected PCIe error", True),
)


def xid(view: HostView) -> Judgement:
    """Faults that NVIDIA's driver logged within the hours that count."""
    if not view.has_gpu_hardware or view.has_only_amd_gpus:
        return skipped("no NVIDIA GPU here")
    found = [one for one in xids_of(view.kernel_messages) if one.number not in view.expected.xid_ignored or one.switch]
    hours = f"the last {view.expected.log_hours:g} h"
    if not found:
        return passed(f"none in {hours}", "none")
    counts = Counter((one.number, one.device, one.switch) for one in found)
    seen = ", ".join(
        f"{'SXid' if switch else 'Xid'} {number} at {device}{f' ({count} times)' if count > 1 else ''}"
        for (number, device, switch), count in sorted(counts.items())
    )
    basis = f"dmesg of {hours}; NVIDIA's Xid catalogue"
    fatal = [one for one in found if not one.switch and one.number in FATAL_XIDS]
    fatal += [one for one in found if one.switch and "Non-fatal" not in one.text]
    if fatal:
        advice = _XID_ADVICE.get(fatal[-1].number, "drain the host, reset the GPU, and watch whether it returns")
        return failed(seen, "none", basis, advice)
    if all(one.number in APPLICATION_XIDS for one in found):
        return warned(
            seen, "none", basis, "usually an error of the application; if it returns on one GPU only, test that GPU"
        )
    return warned(seen, "none", basis, "look it up in NVIDIA's Xid catalogue")


def host_messages(view: HostView) -> Judgement:
    """Machine checks, uncorrected PCIe and memory errors, hung tasks, storage errors, killed processes."""
    counts: Counter[str] = Counter()
    fatal = False
    for message in view.kernel_messages:
        for pattern, name, breaks in _HOST_MESSAGES:
            if re.search(pattern, message.text):
                counts[name] += 1
                fatal = fatal or breaks
                break
    hours = f"the last {view.expected.log_hours:g} h"
    if not counts:
        return passed(f"nothing in {hours}", "no errors")
    seen = ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in counts.items())
    advice = "read dmesg -T on the host; drain it if machine checks or PCIe errors return"
    return (failed if fatal else warned)(seen, "no errors", f"dmesg of {hours}", advice)
