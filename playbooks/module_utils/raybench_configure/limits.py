"""Limits of processes: locked memory and open files, for logins and for services."""

from __future__ import annotations

import re
from typing import Any

from .host import Host
from .plan import ItemPlan, Setting, own_file, skip
from .value import whole

_LOGIN_FILES = ("/etc/security/limits.conf", "/etc/security/limits.d/*.conf")
_MANAGER_FILES = (
    "/usr/lib/systemd/system.conf.d/*.conf",
    "/etc/systemd/system.conf",
    "/etc/systemd/system.conf.d/*.conf",
)
_UNLIMITED = {"unlimited", "infinity", "-1"}
_SOURCE = "RDMA pins every buffer that it registers; a small limit ends in 'Cannot allocate memory' from ibv_reg_mr"


def plan_memlock(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``limit``: unlimited, or KiB. Needs no reboot: new logins have it, and services once they are started again."""
    limit = str(options["limit"])
    if limit != "unlimited":
        limit = str(whole(limit, "system_limits_memlock", range(64, 2**50)))
    manager = "infinity" if limit == "unlimited" else f"{limit}K"
    return _limit_plan(host, "memlock", limit, manager)


def plan_nofile(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``limit``: open files a process, at most what the kernel allows, because a login with more would be refused."""
    most = int(host.word("/proc/sys/fs/nr_open") or 1048576)
    limit = str(whole(options["limit"], "system_limits_nofile", range(1024, most + 1)))
    return _limit_plan(host, "nofile", limit, limit)


def _limit_plan(host: Host, name: str, limit: str, manager: str) -> ItemPlan:
    item = f"system_limits.{name}"
    plan = ItemPlan()
    login_file = f"/etc/security/limits.d/99-raybench-{name}.conf"
    if host.exists(login_file) or not login_limit_suffices(_login_lines(host), name, limit):
        lines = [f"{who} {kind} {name} {limit}\n" for who in ("*", "root") for kind in ("soft", "hard")]
        plan.settings.append(own_file(item, login_file, f"# {_reason(name)}\n" + "".join(lines)))
        plan.pending.append(f"{name}: in force for new logins")
    plan.settings += _manager_settings(host, item, name, manager, plan)
    return plan


def _manager_settings(host: Host, item: str, name: str, manager: str, plan: ItemPlan) -> list[Setting]:
    if not host.systemd():
        plan.notes.append("systemd does not run here: only logins are given the limit")
        return []
    path, key = f"/etc/systemd/system.conf.d/99-raybench-{name}.conf", f"DefaultLimit{name.upper()}"
    if not host.exists(path) and manager_limit_suffices(_texts(host, _MANAGER_FILES), key, manager):
        return []
    plan.pending.append(f"{name}: in force for services once they are started again (Ray, slurmd, containerd, sshd)")
    plan.reload.append(["systemctl", "daemon-reload"])
    return [own_file(item, path, f"[Manager]\n{key}={manager}\n")]


def login_limit_suffices(text: str, name: str, limit: str) -> bool:
    """Whether limits.conf gives everybody and root at least that, soft and hard. Later lines win, as in pam_limits.

    ``*`` does not count for root, and a line of the form ``* - memlock unlimited`` sets both.
    """
    granted: dict[tuple[str, str], str] = {}
    for row in text.splitlines():
        fields = row.split("#")[0].split()
        if len(fields) == 4 and fields[2] == name and fields[0] in ("*", "root"):
            for kind in ("soft", "hard") if fields[1] == "-" else (fields[1],):
                granted[fields[0], kind] = fields[3]
    needed = [(who, kind) for who in ("*", "root") for kind in ("soft", "hard")]
    return all(_at_least(granted.get(each, "0"), limit) for each in needed)


def manager_limit_suffices(text: str, key: str, limit: str) -> bool:
    """Whether systemd's configuration sets at least that; the last line wins, ``SOFT:HARD`` is read as the soft one."""
    found = re.findall(rf"^{key}\s*=\s*(\S+)\s*$", text, re.MULTILINE)
    if not found:
        return False
    return _at_least(_plain(found[-1].split(":")[0]), _plain(limit))


def _plain(limit: str) -> str:
    factors = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
    if limit[-1:] in factors and limit[:-1].isdigit():
        return str(int(limit[:-1]) * factors[limit[-1]])
    return limit


def _at_least(granted: str, limit: str) -> bool:
    if granted in _UNLIMITED:
        return True
    return limit not in _UNLIMITED and granted.isdigit() and int(granted) >= int(limit)


def _reason(name: str) -> str:
    return _SOURCE if name == "memlock" else "Every peer of a rank is several sockets; Ray keeps many files open"


def _login_lines(host: Host) -> str:
    return _texts(host, _LOGIN_FILES)


def _texts(host: Host, patterns: tuple[str, ...]) -> str:
    """Files in the order in which they are read, ours excluded: what would hold without us."""
    names = [name for pattern in patterns for name in host.glob(pattern) if "raybench" not in name]
    return "\n".join(host.text(name) or "" for name in names)


def plan_remove_ipc(host: Host, options: dict[str, Any]) -> ItemPlan:
    """systemd-logind must not remove the shared memory of a user whose last session ended (RemoveIPC=no)."""
    if not host.systemd():
        return skip("systemd does not run here, so nothing removes shared memory at logout")
    path = "/etc/systemd/logind.conf.d/99-raybench.conf"
    manager = "org.freedesktop.login1"
    asked = host.run("busctl", "get-property", manager, "/org/freedesktop/login1", f"{manager}.Manager", "RemoveIPC")
    if not host.exists(path) and asked.out.strip() == "b false":
        return skip("systemd-logind already keeps shared memory (RemoveIPC=no)")
    plan = ItemPlan(settings=[own_file("system_limits.remove_ipc", path, "[Login]\nRemoveIPC=no\n")])
    plan.pending.append("RemoveIPC: in force once systemd-logind is restarted (systemctl restart systemd-logind)")
    return plan
