"""Machines of an RDMA lab, in a network namespace of their own: one bridge for ssh, one for RDMA."""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.errors import LabSetupError

from .image import Image

_MEMORY_MIB = 320
_BOOT_SECONDS = 400
_BURST = "64kb"
_MTU = 9000  # an RDMA MTU of 4096 instead of 1024: three times the throughput


class RdmaLab:
    """Booted machines, numbered from 1. Ends with its processes and its namespace, however the block ends."""

    def __init__(self, nodes: int, image: Image) -> None:
        self.numbers = range(1, nodes + 1)
        self._image = image
        self._namespace = f"rblab-{os.getpid()}-{secrets.token_hex(2)}"
        self._folder = Path(tempfile.mkdtemp(prefix="raybench-rdma-"))
        self._machines: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._lay_network()
            for number in self.numbers:
                self._boot(number)
            for number in self.numbers:
                self._wait(number)
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
            machine.kill()
        for machine in self._machines.values():
            machine.wait(20)
        self._machines.clear()
        with contextlib.suppress(subprocess.SubprocessError, OSError):
            subprocess.run(["ip", "netns", "del", self._namespace], capture_output=True, check=False, timeout=20)
        shutil.rmtree(self._folder, ignore_errors=True)

    def inside(self, *command: str | Path) -> list[str]:
        """A command as it runs in the lab's network, from where all machines are reached."""
        return ["ip", "netns", "exec", self._namespace, *map(str, command)]

    def inventory(self) -> str:
        """An Ansible inventory of the machines."""
        key = self._image.key
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=30"
        hosts = "".join(f"    node{number}: {{ansible_host: 10.76.0.{number}}}\n" for number in self.numbers)
        variables = (
            "    ansible_user: root\n    ansible_python_interpreter: /usr/bin/python3\n"
            f"    ansible_ssh_private_key_file: {key}\n    ansible_ssh_common_args: {options}\n"
        )
        return f"all:\n  hosts:\n{hosts}  vars:\n{variables}"

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
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(60)
            monitor.connect(str(self._folder / f"{number}.monitor"))
            _await_prompt(monitor)
            monitor.sendall(f"set_link f0 {'on' if plugged else 'off'}\n".encode())
            _await_prompt(monitor)  # what is not read yet when the connection closes is never done

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

    def _boot(self, number: int) -> None:
        """Start a machine. Without no_timer_check its kernel panics now and then where processors are short."""
        settings = {
            "host": f"node{number}",
            "ssh": f"10.76.0.{number}/24",
            "fabric": f"10.77.0.{number}/24",
            "mtu": str(_MTU),
            "key": self._image.key.with_suffix(".pub").read_text().split()[1],
        }
        line = "console=ttyS0 quiet reboot=t panic=-1 mitigations=off nokaslr tsc=reliable net.ifnames=0 audit=0 "
        line += "random.trust_cpu=on no_timer_check " + " ".join(
            f"lab.{name}={value}" for name, value in settings.items()
        )
        command: list[str | Path] = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=128", "-M", "q35", "-cpu", "max", "-smp", "1",
            "-m", str(_MEMORY_MIB), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", f"file:{self._folder / f'{number}.console'}",
            "-monitor", f"unix:{self._folder / f'{number}.monitor'},server,nowait",
            "-kernel", self._image.kernel, "-initrd", self._image.initrd, "-append", line,
            "-drive", f"if=none,id=d0,file={self._image.root},format=raw,readonly=on",
            "-device", "virtio-blk-pci,drive=d0", "-device", "virtio-rng-pci",
            *_nic(number, "m", 0), *_nic(number, "f", 1),
        ]  # fmt: skip
        bound = ["setpriv", "--pdeathsig", "KILL", *self.inside(*command)]
        self._machines[number] = subprocess.Popen(bound, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _wait(self, number: int) -> None:
        console = self._folder / f"{number}.console"
        end = time.monotonic() + _BOOT_SECONDS
        while time.monotonic() < end:
            if console.exists() and "LAB ready" in console.read_text(errors="replace"):
                return
            if self._machines[number].poll() is not None:
                raise LabSetupError(f"node{number} ended while it booted: {_tail(console)}")
            time.sleep(0.2)
        raise LabSetupError(f"node{number} was not up within {_BOOT_SECONDS} s: {_tail(console)}")

    def _tc(self, words: str) -> None:
        self._do("tc", *words.split())

    def _do(self, *command: str) -> None:
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, check=False, timeout=30)
        if done.returncode != 0:
            raise LabSetupError(f"{' '.join(command)} failed: {done.stderr.strip()}")


def _await_prompt(monitor: socket.socket) -> None:
    said = b""
    while not said.endswith(b"(qemu) "):
        piece = monitor.recv(4096)
        if not piece:
            raise LabSetupError("the machine's monitor hung up")
        said += piece


def _nic(number: int, letter: str, place: int) -> Sequence[str]:
    """A NIC. The fabric's declares 100 Gb/s, from which Soft-RoCE takes its rate."""
    rate = ",speed=100000,duplex=full" if letter == "f" else ""
    return (
        "-netdev", f"tap,id={letter}0,ifname=tap{letter}{number},script=no,downscript=no",
        "-device", f"virtio-net-pci,netdev={letter}0,mac=52:54:00:00:{place:02x}:{number:02x}{rate}",
    )  # fmt: skip


def _tail(console: Path) -> str:
    return console.read_text(errors="replace")[-300:] if console.exists() else "no console"
