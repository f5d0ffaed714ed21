"""Machines of an RDMA lab, in a network namespace of their own: one bridge for ssh, one for RDMA."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.errors import LabSetupError
from tests.lab.virtual.image import Image
from tests.lab.virtual.machine import Machine, Shape, Tap

from . import flows
from .flows import Flow, read_flow

_BURST = "64kb"
_SSH_OPTIONS = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=120"
_MTU = 9000  # an RDMA MTU of 4096 instead of 1024: three times the throughput


class RdmaLab:
    """Booted machines, numbered from 1. Ends with its processes and its namespace, however the block ends."""

    def __init__(self, nodes: int, image: Image) -> None:
        self.numbers = range(1, nodes + 1)
        self._image = image
        self._namespace = f"rblab-{os.getpid()}-{secrets.token_hex(2)}"
        self._machines: dict[int, Machine] = {}

    def __enter__(self) -> Self:
        try:
            self._lay_network()
            for number in self.numbers:
                self._machines[number] = self._boot(number)
            for machine in self._machines.values():
                machine.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the machines by process id and remove the namespace. Safe to call twice."""
        for machine in self._machines.values():
            machine.close()
        self._machines.clear()
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            subprocess.run(["ip", "netns", "del", self._namespace], capture_output=True, check=False, timeout=20)

    def inside(self, *command: str | Path) -> list[str]:
        """A command as it runs in the lab's network, from where all machines are reached."""
        return ["ip", "netns", "exec", self._namespace, *map(str, command)]

    def inventory(self) -> str:
        """An Ansible inventory of the machines."""
        key = self._image.key
        hosts = "".join(f"    node{number}: {{ansible_host: 10.76.0.{number}}}\n" for number in self.numbers)
        variables = (
            "    ansible_user: root\n    ansible_python_interpreter: /usr/bin/python3\n"
            f"    ansible_ssh_private_key_file: {key}\n    ansible_ssh_common_args: {_SSH_OPTIONS}\n"
        )
        return f"all:\n  hosts:\n{hosts}  vars:\n{variables}"

    def ssh(self, number: int, *command: str) -> list[str]:
        """A command on a machine, as it is started here."""
        return self.inside("ssh", "-i", self._image.key, *_SSH_OPTIONS.split(), f"root@10.76.0.{number}", *command)

    @contextlib.contextmanager
    def watched(self) -> Iterator[list[Flow]]:
        """Watch what goes over RDMA meanwhile. The list has the flows once the block has ended."""
        found: list[Flow] = []
        devices = [f"tapf{number}" for number in self.numbers]
        command = self.inside(sys.executable, "-S", str(Path(flows.__file__)), *devices)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
            try:
                if watcher.stdout is None or watcher.stdout.readline() != "watching\n":
                    raise LabSetupError("what goes over RDMA cannot be watched")
                yield found
                watcher.send_signal(signal.SIGTERM)
                found += map(read_flow, watcher.communicate(timeout=120)[0].splitlines())
            finally:
                watcher.kill()

    def limit(self, number: int, rate: str | None, *, sender: int | None = None) -> None:
        """Hold what a machine is sent over RDMA to a rate, by all or by one sender; None lifts the limit."""
        tap = f"dev tapf{number}"
        if rate is None:
            self._tc(f"qdisc del {tap} root")
        elif sender is None:
            self._tc(f"qdisc replace {tap} root tbf rate {rate} burst {_BURST} latency 50ms")
        else:
            self._tc(f"qdisc add {tap} root handle 1: htb default 2")
            for place, most, burst in (("1:1", rate, _BURST), ("1:2", "10gbit", "256kb")):
                self._tc(f"class add {tap} parent 1: classid {place} htb rate {most} burst {burst} cburst {burst}")
            self._tc(f"qdisc add {tap} parent 1:1 bfifo limit 96kb")
            self._tc(f"filter add {tap} parent 1: protocol ip u32 match ip src 10.77.0.{sender}/32 flowid 1:1")

    def cable(self, number: int, *, plugged: bool) -> None:
        """Pull a machine's RDMA cable, or put it back: its carrier goes, and the port is down."""
        self._machines[number].say(f"set_link n1 {'on' if plugged else 'off'}")

    def _lay_network(self) -> None:
        subprocess.run(["ip", "netns", "add", self._namespace], check=True, capture_output=True, timeout=20)
        self._do("ip", "link", "set", "lo", "up")
        for bridge, address in (("br-m", "10.76.0.254/24"), ("br-f", "10.77.0.254/24")):
            self._do("ip", "link", "add", bridge, "type", "bridge")
            self._do("ip", "addr", "add", address, "dev", bridge)
            self._do("ip", "link", "set", bridge, "mtu", str(_MTU), "up")
        for number in self.numbers:
            for letter in "mf":
                self._do("ip", "tuntap", "add", f"tap{letter}{number}", "mode", "tap")
                self._do("ip", "link", "set", f"tap{letter}{number}", "mtu", str(_MTU), "master", f"br-{letter}", "up")

    def _boot(self, number: int) -> Machine:
        settings = {"ssh": f"10.76.0.{number}/24", "fabric": f"10.77.0.{number}/24", "mtu": str(_MTU)}
        taps = (
            Tap(device=f"tapm{number}", address=f"52:54:00:00:00:{number:02x}"),
            Tap(device=f"tapf{number}", address=f"52:54:00:00:01:{number:02x}", speed=100000),
        )
        files = {
            "/root/.ssh/authorized_keys": self._image.key.with_suffix(".pub").read_text(),
            "/etc/ssh/ssh_host_ed25519_key": self._image.key.read_text(),
        }
        shape = Shape(name=f"node{number}", taps=taps, settings=settings, files=files)
        return Machine(shape, self._image, self.inside())

    def _tc(self, words: str) -> None:
        self._do("tc", *words.split())

    def _do(self, *command: str) -> None:
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise LabSetupError(f"{' '.join(command)} failed: {done.stderr.strip()}")
