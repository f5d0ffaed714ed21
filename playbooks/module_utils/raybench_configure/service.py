"""systemd units and packages of the distribution."""

from __future__ import annotations

import re

from .errors import HostError
from .host import Host
from .resource import Resource, State

_INSTALL_SECONDS = 1500.0


class UnitResource(Resource):
    """A systemd unit. State: enabled and active."""

    kind = "unit"

    def read(self, host: Host) -> State:
        """What systemctl says; None where systemd does not run."""
        if not host.systemd():
            return None
        enabled = host.run("systemctl", "is-enabled", "--", self.target).out.strip()
        active = host.run("systemctl", "is-active", "--", self.target).out.strip()
        return {"enabled": enabled in ("enabled", "enabled-runtime"), "active": active in ("active", "activating")}

    def write(self, host: Host, state: State) -> None:
        """Enable or disable, start or stop, only what differs. Raises HostError with what systemctl said."""
        now = self.read(host) or {}
        wanted = state or {"enabled": False, "active": False}
        host.run("systemctl", "daemon-reload", seconds=60)
        for name, verbs in (("enabled", ("enable", "disable")), ("active", ("start", "stop"))):
            if wanted[name] != now.get(name):
                verb = verbs[0] if wanted[name] else verbs[1]
                answer = host.run("systemctl", verb, "--", self.target, seconds=120)
                if answer.status:
                    raise HostError(f"systemctl {verb} {self.target}: {answer.reason}")


class PackageResource(Resource):
    """Packages, ``apt NAME NAME`` or ``dnf NAME NAME``. State: whether installed, by name, dependencies included."""

    kind = "package"

    def __init__(self, target: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(target)
        self.tool, *self.wanted = target.split()
        self.names = names or tuple(self.wanted)

    def read(self, host: Host) -> State:
        """Which of the names are installed."""
        present = installed(host, self.tool)
        return {name: name in present for name in sorted(self.names)}

    def write(self, host: Host, state: State) -> None:
        """Install what was asked for, or remove what is false in the state. Raises HostError."""
        removed = sorted(name for name, present in (state or {}).items() if not present)
        if not removed:
            command = [*_install(self.tool), *self.wanted]
        elif self.tool == "apt":
            command = ["apt-get", "-y", "-o", "DPkg::Lock::Timeout=120", "purge", "--", *removed]
        else:
            command = ["dnf", "-y", "--noautoremove", "remove", *removed]
        answer = host.run(*command, seconds=_INSTALL_SECONDS)
        if answer.status:
            raise HostError(f"{' '.join(command[:1])}: {answer.reason}")


def installed(host: Host, tool: str) -> set[str]:
    """Names of all installed packages. Raises HostError where the database does not answer."""
    if tool == "apt":
        answer = host.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\n", seconds=60)
        rows = [row.split("\t") for row in answer.out.splitlines()]
        found = {row[1] for row in rows if len(row) == 2 and row[0].startswith("ii")}
    else:
        answer = host.run("rpm", "-qa", "--qf", "%{NAME}\n", seconds=60)
        found = set(answer.out.split())
    if answer.status or not found:
        raise HostError(f"the list of installed packages cannot be read: {answer.reason}")
    return found


def simulate(host: Host, tool: str, names: list[str]) -> set[str] | str:
    """Every package that installing the names would bring, or in words why that cannot be said."""
    if tool == "apt":
        answer = host.run("apt-get", "-s", "--no-install-recommends", "install", "--", *names, seconds=120)
        found = set(re.findall(r"^Inst (\S+)", answer.out, re.MULTILINE))
        removed = re.findall(r"^Remv (\S+)", answer.out, re.MULTILINE)
        if removed:
            return f"installing {' '.join(names)} would remove {' '.join(removed)}"
        return found if answer.status == 0 and found else answer.reason
    answer = host.run("dnf", "-q", "--assumeno", "install", *names, seconds=300)
    rows = re.findall(r"^ (\S+) +(?:x86_64|aarch64|noarch|i686|ppc64le) ", answer.out + answer.errors, re.MULTILINE)
    return set(rows) or answer.reason


def _install(tool: str) -> list[str]:
    if tool == "apt":
        keep = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
        return ["apt-get", "-y", "-o", "DPkg::Lock::Timeout=120", *keep, "--no-install-recommends", "install", "--"]
    return ["dnf", "-y", "install"]
