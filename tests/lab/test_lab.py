"""The lab: what is a node's own, what a link carries, and that nothing is left of it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.processes.waiting import come_true as wait_until

from . import disturbance, network
from .cluster import Lab, parse_rate
from .errors import NodeDownError
from .fixtures import require_lab
from .folder import make_folder
from .node import Node, command_pid

pytestmark = pytest.mark.lab

TRANSFER = Path(__file__).with_name("transfer.py")
PAYLOAD_SHARE = 1448 / 1514  # of an Ethernet frame at MTU 1500: TCP with time stamps, headers counted as tc does
HOLDER = """
import signal
from {package} import Lab
with Lab(2) as lab:
    lab.nodes[0].popen(["sleep", "1000"])
    print(lab.folder.path, *(node.machine.init_pid for node in [lab.control, *lab.nodes]), flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def available() -> None:
    require_lab()


def ask(node: Node, *command: str) -> str:
    return node.run(command, check=True, timeout=20).stdout.strip()


def reaches(source: Node, target: Node) -> bool:
    """Nothing listens there: a refusal is an answer. Its first packet may be lost, while a link comes up."""
    return answered(source, target, 30.0)


def is_cut_off(source: Node, target: Node) -> bool:
    return not answered(source, target, 0.5)


def answered(source: Node, target: Node, seconds: float) -> bool:
    script = f"import socket; socket.create_connection(('{target.address}', 7), timeout={seconds})"
    return "refused" in source.run(["python", "-I", "-S", "-c", script]).stderr.lower()


def test_rails_are_networks_of_their_own() -> None:
    with Lab(2, rails=2) as lab:
        first, second = lab.nodes
        other = network.address_of(second.number, rail=1)
        assert f"inet {network.address_of(first.number, 1)}/" in ask(first, "ip", "-4", "addr", "show", "eth1")
        assert "dev eth1" in ask(first, "ip", "route", "get", other)
        lab.shape(first, "50mbit", rail=1)
        assert "tbf" in ask(first, "tc", "qdisc", "show", "dev", "eth1")
        assert "tbf" not in ask(first, "tc", "qdisc", "show", "dev", "eth0")


def test_each_node_has_its_own_name_address_and_folders(lab: Lab) -> None:
    for node in lab.nodes:
        assert ask(node, "hostname") == node.hostname == f"node{node.number}"
        assert ask(node, "cat", "/etc/hostname") == node.hostname
        assert f"inet {node.address}/" in ask(node, "ip", "-4", "addr", "show", "eth0")
        assert ask(node, "ls", "/sys/class/net").split() == ["eth0", "lo"]
        for folder in ("/tmp", "/run", "/dev/shm", "/etc", "/var", "/root"):
            ask(node, "sh", "-c", f"test ! -e {folder}/mine && echo {node.hostname} > {folder}/mine")
            assert not Path(folder, "mine").exists()
    assert len({node.address for node in lab.nodes}) == len(lab.nodes) == 4


def test_a_node_sees_its_own_processes_only(lab: Lab) -> None:
    seen = ask(lab.nodes[0], "sh", "-c", "echo /proc/[0-9]*").split()
    assert len(seen) <= 4
    assert lab.nodes[0].processes()[0].node_pid == 1


def test_nodes_share_the_shared_folder_and_the_repository(lab: Lab) -> None:
    ask(lab.nodes[0], "sh", "-c", f"echo hello > {lab.folder.shared}/note")
    assert ask(lab.nodes[3], "cat", f"{lab.folder.shared}/note") == "hello"
    assert (lab.folder.shared / "note").read_text() == "hello\n"
    assert ask(lab.nodes[0], "python", "-c", "import raybench; print(raybench.__file__)").endswith(
        "raybench/__init__.py"
    )


def test_every_node_reaches_every_other_and_no_node_the_machine(lab: Lab) -> None:
    for source, target in zip(lab.nodes, [*lab.nodes[1:], lab.control], strict=True):
        assert reaches(source, target)
    assert "unreachable" in lab.nodes[0].run(["ip", "route", "get", "192.0.2.1"]).stderr


def test_a_command_gives_its_output_status_and_signal(lab: Lab) -> None:
    node = lab.nodes[0]
    done = node.run(["sh", "-c", "cat; echo $WORD >&2; exit 3"], text_in="in", environment={"WORD": "out"})
    assert (done.stdout, done.stderr, done.returncode) == ("in", "out\n", 3)
    assert node.run(["sh", "-c", "kill -SEGV $$"]).returncode == -signal.SIGSEGV
    assert node.run(["no-such-command"]).returncode == 127


def test_a_command_out_of_time_dies_with_its_children(lab: Lab) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        lab.nodes[0].run(["sh", "-c", "sleep 100 & sleep 100"], timeout=0.3)
    assert wait_until(lambda: not lab.leftover_processes())


def test_signals_reach_the_command_and_killing_its_escort_kills_it(lab: Lab) -> None:
    trap = ["sh", "-c", "trap 'exit 7' INT; echo ready; while :; do sleep 0.01; done"]
    with lab.nodes[1].popen(trap, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 7
    with lab.nodes[1].popen(["sleep", "100"]) as process:
        assert wait_until(lambda: [left.command for left in lab.nodes[1].leftover_processes()] == ["sleep 100"])
        process.kill()
    assert wait_until(lambda: not lab.leftover_processes())


def test_a_process_is_stopped_and_continued(lab: Lab) -> None:
    node = lab.nodes[2]
    with node.popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert wait_until(lambda: any(left.command == "cat" for left in node.processes()))
        cat = next(left for left in node.processes() if left.pid == command_pid(process))
        node.signal(cat, signal.SIGSTOP)
        assert wait_until(lambda: any(left.state == "T" for left in node.processes()))
        with pytest.raises(ProcessLookupError):
            lab.nodes[1].signal(cat, signal.SIGCONT)
        process.stdin.write("while it is stopped")
        process.stdin.close()
        assert process.poll() is None
        node.signal(cat, signal.SIGCONT)
        assert process.wait(60) == 0


def test_an_unplugged_node_is_silent_until_plugged_again(lab: Lab) -> None:
    lab.nodes[1].unplug()
    assert is_cut_off(lab.nodes[0], lab.nodes[1])
    assert is_cut_off(lab.nodes[1], lab.nodes[0])
    assert reaches(lab.nodes[0], lab.nodes[2])
    lab.nodes[1].plug()
    assert wait_until(lambda: reaches(lab.nodes[0], lab.nodes[1]))


@pytest.mark.alone
@pytest.mark.parametrize("direction", ["to the node", "from the node"])
@pytest.mark.parametrize("rate", ["50mbit", "200mbit"])
def test_a_shaped_link_carries_its_rate(lab: Lab, rate: str, direction: str) -> None:
    shaped, other = lab.nodes[2], lab.nodes[0]
    lab.shape(shaped, rate)
    try:
        measured = transfer(other, shaped) if direction == "to the node" else transfer(shaped, other)
    finally:
        lab.shape(shaped, None)
    assert measured == pytest.approx(parse_rate(rate) * PAYLOAD_SHARE, rel=0.1)


def test_a_link_without_limit_is_fast_again(lab: Lab) -> None:
    lab.shape(lab.nodes[2], "10mbit")
    lab.shape(lab.nodes[2], None)
    assert transfer(lab.nodes[0], lab.nodes[2]) > 1e8  # ten times the limit: how fast it is, the processors decide


def test_ssh_reaches_a_node_and_checks_its_key(lab: Lab) -> None:
    if lab.ssh is None:
        pytest.skip("no sshd on this machine: apt-get install openssh-server")
    command = ["ssh", "-F", str(lab.ssh.config_file), "node3", "hostname; echo $HOME; id -un"]
    assert ask(lab.control, *command).split() == ["node3", "/root", "root"]
    assert wait_until(lambda: not lab.leftover_processes())


def test_a_killed_node_is_gone_and_silent_and_the_others_live() -> None:
    with Lab(nodes=3) as lab:
        dead = lab.nodes[1]
        lab.nodes[0].run(["true"], check=True)
        with dead.popen(["python", "-I", "-S", str(TRANSFER), "receive"], stdout=subprocess.PIPE) as listening:
            assert listening.stdout is not None
            listening.stdout.readline()
            dead.kill()
        assert listening.returncode == -signal.SIGKILL
        assert dead.processes() == []
        assert not dead.alive
        assert is_cut_off(lab.nodes[0], dead)
        assert reaches(lab.nodes[0], lab.nodes[2])
        with pytest.raises(NodeDownError, match="node2 was killed"):
            dead.run(["true"])


def test_an_orphan_is_left_over(lab: Lab) -> None:
    node = lab.nodes[0]
    node.run(["sh", "-c", "setsid sleep 101 </dev/null >/dev/null 2>&1 &"], check=True)
    assert wait_until(lambda: any(left.command == "sleep 101" for left in node.leftover_processes()))
    (left,) = node.leftover_processes()
    node.signal(left, signal.SIGKILL)


def test_a_node_that_reboots_is_the_same_but_for_its_boot_id_and_what_it_held_in_memory() -> None:
    with Lab(nodes=2) as lab:
        other, node = lab.nodes
        boot_id = ("cat", "/proc/sys/kernel/random/boot_id")
        before = ask(node, *boot_id)
        node.run(
            ["sh", "-c", "mkdir /var/lib/kept && echo 1 >/var/lib/kept/one; sleep 102 >/dev/null 2>&1 &"], check=True
        )
        fresh = lab.reboot(node, kept="/var/lib/kept")
        assert lab.nodes == [other, fresh]
        assert (fresh.address, ask(fresh, "hostname"), ask(fresh, "cat", "/var/lib/kept/one")) == (
            node.address,
            "node2",
            "1",
        )
        assert before != ask(fresh, *boot_id)
        assert ask(other, *boot_id) == before
        assert not lab.leftover_processes()
        assert reaches(other, fresh)


def test_packets_are_dropped_one_way_between_sides_and_not_at_all_once_healed(lab: Lab) -> None:
    if disturbance.missing_programs():
        pytest.skip(str(disturbance.missing_programs()))
    one, other, third = lab.nodes[:3]
    try:
        disturbance.black_hole(one, hears=True)
        assert is_cut_off(other, one)
        disturbance.heal([one])
        assert reaches(other, one)
        disturbance.partition([one], [other, third])
        assert is_cut_off(one, third)
        assert reaches(other, third)
    finally:
        disturbance.heal(lab.nodes)


@pytest.mark.alone
def test_nothing_is_left_after_an_exception_in_the_block() -> None:
    before = traces()
    folders, own = [], set()

    def interrupted_work() -> None:
        with Lab(nodes=2) as lab:
            lab.nodes[0].popen(["sleep", "1000"])
            folders.append(lab.folder.path)
            own.update(namespaces(node.machine.init_pid for node in [lab.control, *lab.nodes]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_work()
    assert own
    assert (inhabited(own), traces(), folders[0].exists()) == (set(), before, False)


@pytest.mark.alone
def test_a_lab_that_does_not_come_up_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before, pids = traces(), []

    def interrupt(cables: Sequence[network.Cable]) -> None:
        pids.append(namespaces(cable.node_pid for cable in cables))
        raise KeyboardInterrupt

    monkeypatch.setattr(network, "connect", interrupt)
    with pytest.raises(KeyboardInterrupt), Lab(nodes=2):
        pass
    assert (inhabited(pids[0]), traces()) == (set(), before)


@pytest.mark.alone
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_owner_is_killed(end: signal.Signals) -> None:
    before = traces()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HOLDER.format(package=Lab.__module__)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder, *pids = owner.stdout.readline().split()
        own = namespaces(map(int, pids))
        assert inhabited(own)
        owner.send_signal(end)
    assert wait_until(lambda: not inhabited(own))
    assert traces() == before
    make_folder().remove()  # what the next lab does first
    assert not Path(folder).exists()


def test_a_lab_of_the_living_is_left_alone_by_the_next() -> None:
    with Lab(nodes=1) as first, Lab(nodes=1) as second:
        assert first.folder.path != second.folder.path
        assert first.folder.shared.is_dir()
        assert ask(first.nodes[0], "hostname") == ask(second.nodes[0], "hostname") == "node1"


def test_a_size_or_rate_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 250 nodes, not 0"):
        Lab(nodes=0)
    with pytest.raises(ValueError, match="'fast' is not a rate"):
        parse_rate("fast")


def transfer(source: Node, target: Node) -> float:
    """Payload bits per second of one TCP connection."""
    receiver = ["python", "-I", "-S", str(TRANSFER), "receive"]
    with target.popen(receiver, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        source.run(["python", "-I", "-S", str(TRANSFER), "send", target.address], check=True, timeout=30)
        return float(process.stdout.readline())


def traces() -> tuple[str, str]:
    """What of a lab could show on this machine itself: links and mounts."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return links, Path("/proc/self/mounts").read_text()


def namespaces(pids: Iterable[int]) -> set[str]:
    """The namespaces of these processes that are not ours."""
    return {link for pid in pids for link in namespaces_of(pid)} - set(namespaces_of(os.getpid()))


def namespaces_of(pid: int) -> list[str]:
    return [str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("net", "pid", "mnt", "uts", "ipc")]


def inhabited(wanted: set[str]) -> set[str]:
    """Those of the namespaces in which a process of this machine is."""
    found: set[str] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            found.update(namespaces_of(int(entry.name)))
        except OSError:
            continue
    return found & wanted
