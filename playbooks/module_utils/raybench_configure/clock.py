"""Time synchronisation: one daemon that runs, and the servers that it asks."""

from __future__ import annotations

from typing import Any

from .host import Host
from .plan import ItemPlan, Setting, block, edited_file, fixed, skip
from .rdma import package_plan
from .resources.service import UnitResource
from .value import all_named

_DAEMONS = ("chronyd", "chrony", "ntpd", "ntp", "ntpsec", "systemd-timesyncd", "ptp4l", "phc2sys")
_TIMESYNCD = "systemd-timesyncd.service"
_CHRONY = {"debian": ("chrony.service", "/etc/chrony/chrony.conf"), "rhel": ("chronyd.service", "/etc/chrony.conf")}


def plan_clock(host: Host, options: dict[str, Any]) -> ItemPlan:
    """Where nothing keeps the clock: systemd-timesyncd if it is installed, else chrony.

    ``servers`` are for chrony, and are added to its configuration beside those that stand there.
    """
    servers = all_named("server", options["servers"], "time_sync_servers")
    container = host.container()
    if container:
        return skip(f"{container}: the clock is the machine's")
    if not host.systemd():
        return skip("systemd does not run here: no daemon can be kept running")
    running = [name for name in _DAEMONS if host.run("systemctl", "is-active", name).out.strip() == "active"]
    chrony = [name for name in running if name.startswith("chrony")]
    if running and not (servers and chrony):
        more = "; time_sync_servers is for chrony and was not used" if servers else ""
        return skip(f"{running[0]} keeps the clock already{more}")
    if not servers and host.run("systemctl", "is-enabled", "--", _TIMESYNCD).out.strip() in ("disabled", "enabled"):
        return ItemPlan(settings=[Setting(UnitResource(_TIMESYNCD), fixed(enabled=True, active=True))])
    return _chrony_plan(host, servers, installing=not chrony)


def _chrony_plan(host: Host, servers: list[str], *, installing: bool) -> ItemPlan:
    family = host.family()
    if family not in _CHRONY:
        return skip(f"packages of {family} are not known; install chrony by its own means")
    unit, path = _CHRONY[family]
    packages = package_plan(host, ["chrony"]) if installing else ItemPlan()
    if packages.problem:
        return packages
    plan = ItemPlan(settings=list(packages.settings), notes=list(packages.notes))
    if packages.settings:
        plan.notes.append("installing chrony may bring its file and enable its service: fewer changes then follow")
    if servers:
        lines = [f"server {name} iburst" for name in servers]
        edit = edited_file(path, lambda text: block(text, "time_sync", lines))
        plan.settings.append(edit)
        changed = edit.wanted(edit.resource.read(host)) != edit.resource.read(host)
        if changed:
            plan.reload.append(["systemctl", "restart", unit])
    plan.settings.append(Setting(UnitResource(unit), fixed(enabled=True, active=True)))
    return plan
