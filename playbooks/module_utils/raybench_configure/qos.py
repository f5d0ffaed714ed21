"""Quality of service for RoCE: trust in DSCP, a lossless priority, ECN, and the marks that RDMA puts on its packets."""

from __future__ import annotations

from functools import partial
from typing import Any

from .errors import HostError
from .host import Host
from .plan import ItemPlan, Setting, every, fixed, skip
from .processor import unit_settings
from .rdma import rdma_devices, rdma_interfaces
from .resources.kernel import ConfigfsTosResource, TrafficClassResource, ValueResource
from .resources.quality import DcbResource, MlnxQosResource, dcb_options, mlnx_qos_options
from .resources.resource import Resource, State
from .value import all_named, one_of, whole

_ITEM = "roce_qos.priorities"
_UNIT = "raybench-roce-qos.service"
_MARKS_UNIT = "raybench-roce-marks.service"
TOOLS = ("auto", "mlnx_qos", "dcb")


def plan_priorities(host: Host, options: dict[str, Any]) -> ItemPlan:
    """Trust, flow control and DSCP of each port; only once ``apply`` says that the switches are set up the same way."""
    priority = whole(options["priority"], "roce_qos_priority", range(8))
    point = whole(options["dscp"], "roce_qos_dscp", range(64))
    interfaces = _interfaces(host, options)
    if not interfaces:
        return skip("no Ethernet port with an RDMA device (roce_qos_interfaces lists none)")
    if not options["apply"]:
        return skip("roce_qos_apply is false: set it once the switches trust the same DSCP and flow control priority")
    tool = _tool(host, one_of(options["tool"], "roce_qos_tool", TOOLS))
    if tool is None:
        return skip("neither mlnx_qos (DOCA-OFED, mlnx-tools) nor dcb (iproute2) is installed")
    plan = ItemPlan()
    try:
        _add_ports(host, plan, tool, interfaces, priority, point)
    except HostError as error:
        if "not supported" in str(error):
            return skip(f"the driver has no priorities to set: {error}")
        return ItemPlan(problem=f"priorities cannot be read back, so none was set: {error}")
    _add_notification(host, plan, interfaces, priority)
    if plan.settings and not host.systemd():
        plan.notes.append("systemd does not run here: the priorities last until the next boot")
    return plan


def _add_ports(host: Host, plan: ItemPlan, tool: str, interfaces: list[str], priority: int, point: int) -> None:
    commands = []
    for interface in interfaces:
        resource: Resource = MlnxQosResource(interface) if tool == "mlnx_qos" else DcbResource(interface)
        resource.read(host)
        first = {"trust": "pcp", "pfc": [0] * 8}
        wanted = _wanted(first, priority, point)
        plan.settings.append(Setting(resource, partial(_wanted, priority=priority, point=point)))
        if tool == "mlnx_qos":
            commands += [["mlnx_qos", "-i", interface, *each] for each in mlnx_qos_options(first, wanted)]
        else:
            calls = dcb_options(first, wanted)
            commands += [["-dcb", each[0], each[1], "dev", interface, *each[2:]] for each in calls]
    if host.systemd():
        lines = [_line(host, command) for command in commands]
        plan.settings += unit_settings(_ITEM, _UNIT, "priorities of RoCE ports", lines, _wait_for(interfaces))


def _wanted(state: State, priority: int, point: int) -> dict[str, Any]:
    flow = [int(number == priority) for number in range(8)]
    return {**(state or {}), "trust": "dscp", "pfc": flow, f"dscp {point}": priority}


def _add_notification(host: Host, plan: ItemPlan, interfaces: list[str], priority: int) -> None:
    """ECN (DCQCN) has switches in sysfs with DOCA-OFED; drivers of the kernel leave it as the firmware has it: on."""
    for interface in interfaces:
        names = [f"/sys/class/net/{interface}/ecn/{role}/enable/{priority}" for role in ("roce_np", "roce_rp")]
        there = [name for name in names if host.exists(name)]
        plan.settings += [Setting(ValueResource(name), every("1")) for name in there]
        if not there:
            plan.notes.append(
                f"{interface}: ECN is as the firmware has it; this driver does not show it (mlxconfig does)"
            )


def plan_marks(host: Host, options: dict[str, Any]) -> ItemPlan:
    """Which DSCP RDMA-CM and all other RoCE traffic carry: the type of service, 4 x DSCP + 2 (ECN capable)."""
    point = whole(options["dscp"], "roce_qos_dscp", range(64))
    wanted_device = all_named("device", options["devices"], "roce_qos_devices")
    devices = wanted_device or sorted(set(rdma_interfaces(host).values()))
    if not devices:
        return skip("no RoCE device")
    if not options["apply"]:
        return skip("roce_qos_apply is false: RoCE traffic keeps its marks")
    absent = [device for device in devices if device not in rdma_devices(host)]
    if absent:
        return ItemPlan(problem=f"roce_qos_devices names {', '.join(absent)}, which this host does not have")
    service = 4 * point + 2
    plan, commands = ItemPlan(), []
    for device in devices:
        resources: list[tuple[Resource, State, str]] = [
            (ConfigfsTosResource(f"{device}/1"), {"tos": service, "shown": True}, _configfs_line(device, service)),
            (TrafficClassResource(f"{device}/1"), {"traffic_class": service}, _class_line(device, service)),
        ]
        for resource, state, command in resources:
            if resource.read(host) is not None:
                plan.settings.append(Setting(resource, fixed(**(state or {}))))
                commands.append(command)
    if not commands:
        return skip(
            "this kernel has neither rdma_cm in configfs nor a traffic class of devices: set NCCL_IB_TC instead"
        )
    if host.systemd():
        plan.settings += unit_settings("roce_qos.marks", _MARKS_UNIT, "marks of RoCE traffic", commands)
    plan.advice.append(f"NCCL marks its own traffic: NCCL_IB_TC={service} gives it the same DSCP")
    return plan


def _interfaces(host: Host, options: dict[str, Any]) -> list[str]:
    named = all_named("interface", options["interfaces"], "roce_qos_interfaces")
    return [name for name in named if host.exists(f"/sys/class/net/{name}")] or sorted(rdma_interfaces(host))


def _tool(host: Host, tool: str) -> str | None:
    wanted = ("mlnx_qos", "dcb") if tool == "auto" else (tool,)
    return next((name for name in wanted if host.find(name)), None)


def _line(host: Host, command: list[str]) -> str:
    """A line of ExecStart; a hyphen lets it fail, as dcb does on what is there already."""
    name = command[0].lstrip("-")
    prefix = "-" if command[0].startswith("-") else ""
    return " ".join([prefix + (host.find(name) or name), *command[1:]])


def _wait_for(interfaces: list[str]) -> str:
    units = " ".join(f"sys-subsystem-net-devices-{name.replace('-', chr(92) + 'x2d')}.device" for name in interfaces)
    return f"After={units}\nWants={units}\n"


def _configfs_line(device: str, service: int) -> str:
    folder = f"/sys/kernel/config/rdma_cm/{device}"
    return f"/bin/sh -c 'mkdir -p {folder} && echo {service} > {folder}/ports/1/default_roce_tos'"


def _class_line(device: str, service: int) -> str:
    return f"/bin/sh -c 'echo {service} > /sys/class/infiniband/{device}/tc/1/traffic_class'"
