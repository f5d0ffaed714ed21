"""The frequency governor of the CPUs."""

from __future__ import annotations

from typing import Any

from .host import Host
from .plan import ItemPlan, Setting, every, fixed, own_file, skip
from .resources.kernel import ValueResource
from .resources.service import UnitResource
from .value import named

_PATTERN = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
_UNIT = "raybench-cpu-governor.service"


def plan_governor(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``governor``: for all CPUs now, and at each boot by a unit of ours."""
    governor = named("governor", options["governor"], "system_limits_cpu_governor")
    container = host.container()
    if container:
        return skip(f"{container}: CPU frequency is the machine's")
    now = ValueResource(_PATTERN).read(host)
    if not now:
        return skip("this machine's CPU frequency is not the kernel's to set (virtual machine, or firmware keeps it)")
    offered = host.word(min(now).replace("scaling_governor", "scaling_available_governors")).split()
    if offered and governor not in offered:
        return skip(f"the driver offers {', '.join(offered)}, not {governor}")
    if set(now.values()) == {governor} and not host.exists(f"/etc/systemd/system/{_UNIT}"):
        return skip(f"all {len(now)} CPUs have {governor} already")
    plan = ItemPlan(settings=[Setting(ValueResource(_PATTERN), every(governor))])
    if host.systemd():
        plan.settings += unit_settings("system_limits.cpu_governor", _UNIT, "CPU governor", [_loop(governor)])
    else:
        plan.notes.append("systemd does not run here: the governor lasts until the next boot")
    for service in ("tuned", "power-profiles-daemon"):
        if host.run("systemctl", "is-active", service).out.strip() == "active":
            plan.advice.append(f"{service} is active and may set another governor: give it a throughput profile")
    return plan


def unit_settings(item: str, unit: str, what: str, commands: list[str], after: str = "") -> list[Setting]:
    """A unit that repeats commands at each boot, enabled. Every command begins with a full path."""
    body = (
        f"[Unit]\nDescription=raybench: {what}\n{after}\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nTimeoutStartSec=60\n"
        + "".join(f"ExecStart={command}\n" for command in commands)
        + "\n[Install]\nWantedBy=multi-user.target\n"
    )
    return [own_file(item, f"/etc/systemd/system/{unit}", body), Setting(UnitResource(unit), fixed(enabled=True))]


def _loop(governor: str) -> str:
    return f"/bin/sh -c 'for file in {_PATTERN}; do echo {governor} > $$file; done'"
