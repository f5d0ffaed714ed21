"""A virtual machine as one more host of a lab: in its network and its ssh config, with a kernel of its own to reboot.

It sees the repository and the Python environment of this machine at the same paths, read only, over 9p.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.lab import network
from tests.lab.cluster import Lab

from .image import Image
from .machine import Machine, Shape, Tap

NAME = "vm1"
_NUMBER = 200  # of its address, beyond those of a lab's nodes
_TAP = "tapv"
_REPOSITORY = Path(__file__).resolve().parents[3]


class VirtualHost:
    """The host. ``ssh NAME`` works on the control node as it does for nodes; ``variables`` are for its inventory."""

    def __init__(self, lab: Lab, machine: Machine) -> None:
        self.name = NAME
        self.address = network.address_of(_NUMBER)
        self.variables = {"ansible_python_interpreter": "/usr/bin/python3"}  # its own, which is not read over 9p
        self._lab, self._machine, self._boots = lab, machine, 1

    def reset(self) -> None:
        """Press its reset button. It comes back by itself: see ``wait``."""
        self._boots += 1
        self._machine.reset()

    def reset_itself(self) -> None:
        """Have its kernel reboot at once, without a word to any process."""
        self._boots += 1
        self.run("(sleep 0.2; echo b > /proc/sysrq-trigger) >/dev/null 2>&1 &")

    def wait(self) -> None:
        """Return when it is up again."""
        self._machine.wait(self._boots)

    @property
    def boot_id(self) -> str:
        """As it says it itself, over ssh."""
        done = self.run("cat", "/proc/sys/kernel/random/boot_id")
        return done.strip()

    def run(self, *command: str, seconds: float = 300) -> str:
        """What a command prints there, over ssh. Raises subprocess.CalledProcessError."""
        return self._lab.control.run(["ssh", *self._options(), NAME, *command], timeout=seconds, check=True).stdout

    def _options(self) -> list[str]:
        assert self._lab.ssh is not None
        return ["-F", str(self._lab.ssh.config_file), "-o", "ConnectTimeout=120"]

    def has_session(self) -> bool:
        """Whether somebody on the control node is connected to its sshd."""
        words = ["ss", "-Htn", "state", "established", "dst", f"{self.address}:22"]
        return bool(self._lab.control.run(words, check=True).stdout.strip())


@contextlib.contextmanager
def virtual_host(lab: Lab, image: Image, *, memory_mib: int = 512, processors: int = 1) -> Iterator[VirtualHost]:
    """Boot one beside the nodes of a lab. Raises LabSetupError."""
    assert lab.ssh is not None
    pid = lab.control.machine.init_pid
    network.ip(pid, f"tuntap add {_TAP} mode tap", f"link set {_TAP} master br0 up")
    shape = Shape(
        name=NAME,
        taps=[Tap(device=_TAP, address="52:54:00:00:02:01")],
        settings={"ssh": f"{network.address_of(_NUMBER)}/{network.PREFIX_LENGTH}"},
        memory_mib=memory_mib,
        processors=processors,
        files={
            "/etc/ssh/ssh_host_ed25519_key": lab.ssh.host_key,
            "/root/.ssh/authorized_keys": lab.ssh.public_key,
            "/usr/local/bin/raybench": _program(),
        },
        shares=_shares(),
        reboots=True,
    )
    machine = Machine(shape, image, ["nsenter", f"--net=/proc/{pid}/ns/net"])
    try:
        machine.wait()
        _make_known(lab)
        yield VirtualHost(lab, machine)
    finally:
        machine.close()


def _program() -> str:
    start = "from raybench.cli import main; main()"
    return f"#!/bin/sh\nPYTHONPATH={_REPOSITORY} exec {sys.executable} -P -c '{start}' \"$@\"\n"


def _shares() -> list[Path]:
    """Folders that Python needs there; those within another one are in that."""
    wanted = sorted({path.resolve() for path in (_REPOSITORY, Path(sys.prefix), Path(sys.base_prefix))})
    return [path for path in wanted if not any(path != other and path.is_relative_to(other) for other in wanted)]


def _make_known(lab: Lab) -> None:
    assert lab.ssh is not None
    address = network.address_of(_NUMBER)
    key = lab.ssh.known_hosts.read_text().split("\n", 1)[0].partition(" ")[2]
    with lab.ssh.known_hosts.open("a") as known:
        known.write(f"{NAME},{address} {key}\n")
    with lab.ssh.config_file.open("a") as config:
        config.write(f"Host {NAME} {address}\n  HostName {address}\n")
