"""Xids and SXids in the kernel's log, each with what NVIDIA's catalogue says to do."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from raybench.hardware.xids import xid_catalogue
from raybench.preflight.checks.gpu_alarms import RECOVERY, recovery_of
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.system import Xid, xids_of
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

Weight = Literal["none", "warn", "fail"]
_RECOVERY_CHANGED = 154
# ``GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)``
_CHANGED = re.compile(r"changed from 0x[0-9a-f]+ \(([^)]*)\) to 0x[0-9a-f]+ \(([^)]*)\)")
_ADVICE = {
    "none": "nothing by itself: look at what the log says beside it",
    "application": "restart the application; if it returns on one GPU only, test that GPU",
    "reset": "drain the host and reset the GPU (nvidia-smi --gpu-reset); reboot where that fails",
    "reboot": "drain the host and reboot it, power-cycle it where that is not enough; reseat or replace what returns",
    "inspect": "check the GPU's power, its slot and the board",
    "replace": "drain the host and have the GPU replaced: dcgmi diag -r 3 and the vendor's field diagnostics first",
    "nvlink": "reset the GPU; if it returns on a link, the board, cable or NVSwitch is at fault: nvidia-smi nvlink -s",
    "switch": "restart nvidia-fabricmanager and reset all GPUs, or reboot; then the NVSwitch or its link is at fault",
}
# The gravest first; what is not here is what the row of gpu-xid says.
_NODE_ACTIONS = {"replace": "rma", "inspect": "reseat", "reboot": "reboot"}
_OF_JOBS = {"application", "none"}
_SEVERE = frozenset({"reset", "reboot", "inspect", "replace"})


def xid(view: HostView) -> Judgement:
    """Faults that NVIDIA's driver logged within the hours that count."""
    if not view.has_gpu_hardware or view.has_only_amd_gpus:
        return skipped("no NVIDIA GPU here")
    found = [one for one in xids_of(view.kernel_messages) if one.switch or one.number not in view.expected.xid_ignored]
    hours = f"the last {view.expected.log_hours:g} h"
    if not found:
        return passed(f"none in {hours}", "none")
    weights = _weights(found)
    basis = f"dmesg of {hours}; NVIDIA's Xid catalogue"
    worst: Weight = max(weights.values(), key=("none", "warn", "fail").index)
    if worst == "none":
        return passed(_told(list(weights)), "none that asks for anything", basis)
    actions = dict.fromkeys(_action(one) for one, weight in weights.items() if weight == worst)
    advice = "; ".join(_advice(action) for action in actions)
    said = (failed if worst == "fail" else warned)(_told(list(weights)), "none", basis, advice)
    return said.for_node(effect="nothing" if actions.keys() <= _OF_JOBS else "", action=_for_node(actions))


def _for_node(actions: Iterable[str]) -> str:
    """What is done to the node: the gravest of the catalogue's actions."""
    asked = {action.removeprefix("recovery").strip() for action in actions}
    return next((found for word, found in _NODE_ACTIONS.items() if word in asked), "")


def _told(found: Sequence[Xid]) -> str:
    counts = Counter((one.switch, one.number, one.device) for one in found)
    last = {(one.switch, one.number, one.device): one for one in found}
    parts = [_one(last[key], counts[key]) for key in sorted(counts)]
    return ", ".join(parts[:12]) + (f" and {len(parts) - 12} more" if len(parts) > 12 else "")


def _one(one: Xid, count: int) -> str:
    meaning = None if one.switch else xid_catalogue().get(one.number)
    detail = _recovery_word(one) if one.number == _RECOVERY_CHANGED and not one.switch else ""
    name = f" ({detail or meaning.name})" if meaning else ""
    times = f" ({count} times)" if count > 1 else ""
    return f"{'SXid' if one.switch else 'Xid'} {one.number}{name} at {one.device}{times}"


def _recovery_word(one: Xid) -> str:
    changed = _CHANGED.search(one.text)
    return f"recovery action {recovery_of(changed[2])}" if changed else ""


def _weights(found: Sequence[Xid]) -> dict[Xid, Weight]:
    """How heavy each is. Where the driver said later that a GPU needs nothing any more, earlier ones warn."""
    weights: dict[Xid, Weight] = {}
    for one in found:
        if not one.switch and one.number == _RECOVERY_CHANGED and _needs_nothing(one):
            weights = {
                old: "warn" if weight == "fail" and not old.switch and old.device == one.device else weight
                for old, weight in weights.items()
            }
        weights[one] = _weight(one)
    return weights


def _needs_nothing(one: Xid) -> bool:
    changed = _CHANGED.search(one.text)
    return bool(changed) and recovery_of(changed[2] if changed else "") == "none"


def _weight(one: Xid) -> Weight:
    action = _action(one)
    if action == "switch":  # details alone, whose own line is lost, have the severity as 1 or not at all
        return "fail" if re.search(r"(?<!non-)(?<!non)\bfatal|Severity 1\b", one.text, re.IGNORECASE) else "warn"
    if action == "nvlink":
        return "warn" if re.search(r"non-?fatal", one.text, re.IGNORECASE) else "fail"
    if action == "recovery none":
        return "none"
    if action in _SEVERE or action.startswith("recovery"):
        return "fail"
    return "warn"


def _action(one: Xid) -> str:
    """The action of the catalogue; of Xid 154 the one that its text names; ``switch`` for an SXid."""
    if one.switch:
        return "switch"
    meaning = xid_catalogue().get(one.number)
    if meaning is None:
        return "none"
    if meaning.action != "recovery":
        return meaning.action
    changed = _CHANGED.search(one.text)
    return f"recovery {recovery_of(changed[2])}" if changed else "recovery"


def _advice(action: str) -> str:
    word = action.removeprefix("recovery").strip()
    if action.startswith("recovery"):
        return RECOVERY.get(word, "do what nvidia-smi -q names as GPU Recovery Action")
    return _ADVICE[action]
