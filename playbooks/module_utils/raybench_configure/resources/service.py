"""systemd units and packages of the distribution."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import HostError
from ..host import Host
from .resource import Resource, State

_INSTALL_SECONDS = 1500.0
_ARCHITECTURES = ("x86_64", "aarch64", "noarch", "i686", "ppc64le")


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

    def take_back(self, before: State, after: State, current: State) -> tuple[State, list[str]]:
        """A unit of ours goes for good, also where a boot has started it since."""
        if self.target.startswith("raybench-") and before == {"enabled": False, "active": False}:
            return before, []
        return super().take_back(before, after, current)


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


@dataclass(frozen=True)
class Transaction:
    """What installing packages would do: names that are new, that get another version, that go."""

    new: tuple[str, ...] = ()
    upgraded: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def simulate(host: Host, tool: str, names: list[str]) -> Transaction:
    """Ask the package manager what it would do. Raises HostError in its words where it cannot."""
    if tool == "apt":
        answer = host.run("apt-get", "-s", "--no-install-recommends", "install", "--", *names, seconds=120)
        transaction = parse_apt(answer.out)
    else:
        answer = host.run("dnf", "--assumeno", "install", *names, seconds=300)
        transaction = parse_dnf(answer.out)
    if not transaction.new:
        raise HostError(f"{' '.join(names)} cannot be installed: {answer.reason}")
    return transaction


def parse_apt(text: str) -> Transaction:
    """``Inst perftest (4.5 Debian:12 [amd64])``; ``Inst libc6 [1] (2 ...)`` is an upgrade; ``Remv libfoo [1]``."""
    return Transaction(
        new=tuple(re.findall(r"^Inst (\S+) \(", text, re.MULTILINE)),
        upgraded=tuple(re.findall(r"^Inst (\S+) \[", text, re.MULTILINE)),
        removed=tuple(re.findall(r"^Remv (\S+)", text, re.MULTILINE)),
    )


def parse_dnf(text: str) -> Transaction:
    """Rows `` perftest  x86_64  4.5-1.el9  appstream  318 k`` below headings such as ``Installing dependencies:``."""
    found: dict[str, list[str]] = {"Installing": [], "Upgrading": [], "Downgrading": [], "Removing": []}
    heading = ""
    for row in text.splitlines():
        title = re.match(r"([A-Z][a-z]+)[a-z ]*:$", row)
        if title or not row.strip():
            heading = title[1] if title else ""
        fields = row.split()
        if heading in found and row.startswith(" ") and len(fields) >= 3 and fields[1] in _ARCHITECTURES:
            found[heading].append(fields[0])
    changed = [*found["Upgrading"], *found["Downgrading"]]
    return Transaction(new=tuple(found["Installing"]), upgraded=tuple(changed), removed=tuple(found["Removing"]))


def _install(tool: str) -> list[str]:
    if tool == "apt":
        keep = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
        return ["apt-get", "-y", "-o", "DPkg::Lock::Timeout=120", *keep, "--no-install-recommends", "install", "--"]
    return ["dnf", "-y", "install"]
