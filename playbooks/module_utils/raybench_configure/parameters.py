"""Kernel parameters (sysctl): now by /proc/sys, and over boots by a file of ours under /etc/sysctl.d."""

from __future__ import annotations

import re
from typing import Any

from .errors import RefusedError
from .host import Host
from .plan import ItemPlan, Setting, every, own_file, skip
from .resources.kernel import ValueResource
from .value import line, named

_NUMA_BALANCING = "/proc/sys/kernel/numa_balancing"
_FILES = ("/usr/lib/sysctl.d/*.conf", "/run/sysctl.d/*.conf", "/etc/sysctl.d/*.conf", "/etc/sysctl.conf")


def plan_parameters(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``parameters``: value by name. What this kernel lacks, or keeps from a container, is passed over and said."""
    wanted = options["parameters"] or {}
    if not isinstance(wanted, dict):
        raise RefusedError(f"system_limits_parameters is {wanted!r}; give a mapping of names to values")
    checked = {named("sysctl", key, "system_limits_parameters"): _value(key, wanted[key]) for key in wanted}
    return parameter_plan(host, "system_limits.sysctl", checked)


def plan_numa_balancing(host: Host, options: dict[str, Any]) -> ItemPlan:
    """Off, as ROCm's guide and CVS ask: pages that the kernel unmaps to see who uses them stall a rank's copies."""
    container = host.container()
    if container:
        return skip(f"{container}: NUMA balancing is the machine's")
    if not host.exists(_NUMA_BALANCING):
        return skip("this kernel has no automatic NUMA balancing")
    if len(host.glob("/sys/devices/system/node/node[0-9]*")) < 2 and host.word(_NUMA_BALANCING) == "0":
        return skip("one NUMA node: there is nothing to balance, and it is off")
    return parameter_plan(host, "system_limits.numa_balancing", {"kernel.numa_balancing": "0"})


def parameter_plan(host: Host, item: str, wanted: dict[str, str]) -> ItemPlan:
    """A file and the running values for parameters that are not as wanted, or would not be after a boot."""
    if not wanted:
        return skip("no kernel parameter is asked for")
    plan, settings = ItemPlan(), []
    path = f"/etc/sysctl.d/99-zz-raybench-{item.split('.')[1].replace('_', '-')}.conf"
    kept, ours = persisted(host), host.exists(path)
    lasting = {}
    for key, value in wanted.items():
        file = parameter_file(key)
        why_not = _out_of_reach(host, key, file)
        if why_not:
            plan.notes.append(f"{key}: {why_not}")
            continue
        if ours or kept.get(key) != value:
            lasting[key] = value
        settings.append(Setting(ValueResource(file), every(value)))
    right = all(" ".join((host.text(parameter_file(key)) or "").split()) == wanted[key] for key in lasting)
    if lasting and not (right and not ours and all(kept.get(key) == value for key, value in lasting.items())):
        body = "".join(f"{key} = {value}\n" for key, value in lasting.items())
        plan.settings.append(own_file(item, path, body))
    plan.settings += settings
    if not plan.settings:
        plan.skipped = "; ".join(plan.notes)
    plan.advice += _later_lines(host, path, wanted)
    return plan


def parameter_file(key: str) -> str:
    """Where a parameter lies under /proc/sys."""
    return "/proc/sys/" + key.replace(".", "/")


def persisted(host: Host) -> dict[str, str]:
    """What the files of sysctl.d, ours excluded, set at a boot: the last one wins."""
    found: dict[str, str] = {}
    by_name = {name.rsplit("/", 1)[1]: name for pattern in _FILES for name in host.glob(pattern)}
    for base in sorted(by_name):
        if "raybench" not in base:
            for key, value in re.findall(
                r"^\s*-?([^#;=\s]+)\s*=\s*(.*?)\s*$", host.text(by_name[base]) or "", re.MULTILINE
            ):
                found[key.replace("/", ".")] = " ".join(value.split())
    return found


def _out_of_reach(host: Host, key: str, file: str) -> str | None:
    if not host.exists(file):
        return "not a parameter of this kernel"
    if not key.startswith("net.") and host.container():
        return f"{host.container()}, and it is the machine's"
    if not host.may_write(file):  # as of net.core.rmem_max in a network namespace
        return f"this kernel lets nobody set it here{f' ({host.container()})' if host.container() else ''}"
    return None


def _later_lines(host: Host, path: str, wanted: dict[str, str]) -> list[str]:
    """/etc/sysctl.conf is read last by procps, and first by systemd: a line there that differs is worth a word."""
    found = re.findall(r"^\s*-?([^#;=\s]+)\s*=\s*(.*?)\s*$", host.text("/etc/sysctl.conf") or "", re.MULTILINE)
    clashes = [key for key, value in found if wanted.get(key.replace("/", "."), value) != value]
    return [f"/etc/sysctl.conf sets {key} too: remove that line, or 'sysctl --system' undoes {path}" for key in clashes]


def _value(key: str, value: Any) -> str:
    return " ".join(line(value, f"system_limits_parameters['{key}']").split())
