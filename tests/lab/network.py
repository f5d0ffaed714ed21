"""Links of the lab: a bridge a rail in the control node, a veth pair to each node, rates set with tc.

Each command runs in the network namespace of a process, given by its pid. The nodes' network touches no other: two labs
can use the same addresses, and nothing in a lab reaches the machine or the internet.
"""

import contextlib
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .errors import LabSetupError

PREFIX_LENGTH = 16
_QUEUE_SECONDS = 0.1
_LEAST_BURST_BYTES = 16 * 1024
_BURST_SECONDS = 0.004  # one timer tick at 250 Hz: less and the link cannot reach its rate


def address_of(number: int, rail: int = 0) -> str:
    """The IPv4 address of node ``number`` on a rail; the control node, number 0, is 10.88.255.254 on the first."""
    if number == 0:
        return f"10.{88 + rail}.255.254"
    block, rest = divmod(number - 1, 250)
    return f"10.{88 + rail}.{block}.{rest + 1}"


def build_bridges(control_pid: int, rails: int) -> None:
    """Make a bridge for each rail in the control node and give the control node its addresses."""
    ip(control_pid, "link set lo up")
    for rail in range(rails):
        ip(
            control_pid,
            f"link add br{rail} type bridge",
            f"addr add {address_of(0, rail)}/{PREFIX_LENGTH} dev br{rail}",
            f"link set br{rail} up",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """The link of a node to a rail's switch: ``port`` on the bridge in the control node, ``device`` in the node."""

    number: int
    control_pid: int
    node_pid: int
    rail: int = 0

    @property
    def port(self) -> str:
        """The name of the bridge's side."""
        return f"port{self.number}" if self.rail == 0 else f"port{self.number}.{self.rail}"

    @property
    def device(self) -> str:
        """The name of the node's side."""
        return f"eth{self.rail}"

    def unplug(self) -> None:
        """Cut the link: the node sees its carrier go, nobody else hears a word."""
        ip(self.control_pid, f"link set {self.port} down")

    def plug(self) -> None:
        """Mend the link. Its rate is what it was."""
        ip(self.control_pid, f"link set {self.port} up")

    def shape(self, bits_per_second: int | None) -> None:
        """Hold both directions to a rate, or lift the limit."""
        for pid, device in ((self.control_pid, self.port), (self.node_pid, self.device)):
            if bits_per_second is None:
                lift_limit(pid, device)
            else:
                limit_rate(pid, device, bits_per_second)


def connect(cables: Sequence[Cable]) -> None:
    """Lay the cables and give the nodes their addresses."""
    laid = []
    for cable in cables:
        laid += [
            f"link add {cable.port} type veth peer name {cable.device} netns {cable.node_pid}",
            f"link set {cable.port} master br{cable.rail} up",
        ]
    ip(cables[0].control_pid, *laid)
    for cable in cables:
        address = f"{address_of(cable.number, cable.rail)}/{PREFIX_LENGTH}"
        device = cable.device
        ip(cable.node_pid, "link set lo up", f"addr add {address} dev {device}", f"link set {device} up")


def hardware_addresses(cables: Sequence[Cable]) -> list[str]:
    """The MAC address of the node's side of each cable."""
    return [_in_network(cable.node_pid, f"ip -br link show {cable.device}").split()[2] for cable in cables]


def set_hardware_addresses(cables: Sequence[Cable], addresses: Sequence[str]) -> None:
    """Give the node's side of each cable a MAC address."""
    for cable, address in zip(cables, addresses, strict=True):
        ip(cable.node_pid, f"link set {cable.device} address {address}")


def remove_ports(cables: Sequence[Cable]) -> None:
    """Take the bridge's side of cables away, whose nodes are gone: the kernel does so as well, some time later."""
    for cable in cables:
        with contextlib.suppress(LabSetupError):
            ip(cable.control_pid, f"link del {cable.port}")


def burst_bytes(bits_per_second: int) -> int:
    """What a shaped link that was idle sends at once, Ethernet headers included."""
    return max(_LEAST_BURST_BYTES, round(bits_per_second / 8 * _BURST_SECONDS))


def limit_rate(pid: int, device: str, bits_per_second: int) -> None:
    """Let a device send at no more than a rate.

    The rate counts Ethernet headers: TCP carries 1448/1514 of it at MTU 1500. The token bucket is
    as small as the timer allows, so that even a short transfer is held to the rate.
    """
    burst = burst_bytes(bits_per_second)
    queue_bytes = burst + round(bits_per_second / 8 * _QUEUE_SECONDS)
    bucket = f"rate {bits_per_second}bit burst {burst} limit {queue_bytes}"
    _in_network(pid, f"tc qdisc replace dev {device} root tbf {bucket}")


def limit_way(pid: int, device: str, address: str, bits_per_second: int) -> None:
    """Let a device send at no more than a rate to one address, and as fast as it can to all others."""
    for command in (
        f"qdisc replace dev {device} root handle 1: htb default 10",
        f"class add dev {device} parent 1: classid 1:10 htb rate 40gbit",
        f"class add dev {device} parent 1: classid 1:20 htb rate {bits_per_second}bit",
        f"filter add dev {device} protocol ip parent 1: prio 1 u32 match ip dst {address}/32 flowid 1:20",
    ):
        _in_network(pid, f"tc {command}")


def lift_limit(pid: int, device: str) -> None:
    """Let a device send as fast as it can again."""
    _in_network(pid, f"tc qdisc replace dev {device} root noqueue")


def ip(pid: int, *commands: str) -> None:
    """Run ``ip`` commands in the network of a process, all of them in one start of ip. Raises LabSetupError."""
    _in_network(pid, "ip -batch -", commands)


def _in_network(pid: int, command: str, lines: Iterable[str] = ()) -> str:
    entered = ["nsenter", f"--net=/proc/{pid}/ns/net", *command.split()]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(entered, input=text, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise LabSetupError(f"{' '.join(entered)} failed: {done.stderr.strip()}; its input was:\n{text}")
    return done.stdout
