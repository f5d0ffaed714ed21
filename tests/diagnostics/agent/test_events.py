"""What is told in words: the kernel's log, who takes the processors, and NCCL logs as they grow."""

import os
import time
from pathlib import Path

import pytest

from diagnostics.agent.agent import Agent
from diagnostics.agent.message_reader import decode
from diagnostics.agent.messages import Message, Warned, Watch, encode
from diagnostics.agent.options import AgentOptions
from diagnostics.agent.sources import others
from diagnostics.agent.sources.base import SourceUnavailableError
from diagnostics.agent.sources.kernel_log import MAX_EVENTS, KernelLog
from diagnostics.agent.sources.nccl_logs import MOST_SECONDS, SETTLED_LOOKS, NcclLogs
from diagnostics.agent.sources.others import Others
from diagnostics.agent.sources.processes import Processes

from .machine import machine, write

XID = "4,1,5,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=4117, GPU has fallen off the bus.\n SUBSYSTEM=pci\n DEVICE=+pci:x\n"
DOWN = "4,2,6,-;mlx5_core 0000:b1:00.0 ens1f0: Link down\n"
FALLBACK = """\
n1:100:100 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>
n1:100:100 [0] NCCL INFO cudaDriverVersion 12040
n1:100:100 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
n1:100:120 [0] NCCL INFO NET/IB : No device found.
n1:100:120 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
n1:100:120 [0] NCCL INFO Using network Socket
n1:100:120 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init START
n1:100:120 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0
n1:100:120 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0
n1:100:120 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init COMPLETE
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    return path


def test_lines_that_matter_are_told_with_their_device_and_no_others(kernel: Path) -> None:
    log = KernelLog(kernel)
    with kernel.open("w") as stream:
        stream.write("6,0,1,-;usb 1-1: new high-speed USB device\n" + XID + DOWN)
        stream.flush()
        told = [(one.device, one.text) for one in log.read().events]
        assert told == [
            ("PCI:0000:1b:00", "NVRM: Xid (PCI:0000:1b:00): 79, pid=4117, GPU has fallen off the bus."),
            ("0000:b1:00.0", "mlx5_core 0000:b1:00.0 ens1f0: Link down"),
        ]
        assert log.read().events == ()
        stream.write(XID * (MAX_EVENTS + 30))
        stream.flush()
        flood = log.read().events
        assert len(flood) == MAX_EVENTS + 1
        assert flood[-1].text == "... and 30 more lines of the kernel"
        for number in range(MAX_EVENTS + 30):
            stream.write(f"4,0,1,-;EDAC MC0: 1 CE memory read error on row:{number:x} page:0x{number * 999:x}\n")
        stream.write(XID)
        stream.flush()
        assert [one.device for one in log.read().events].count("PCI:0000:1b:00") == 1
    log.close()


def test_a_log_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailableError, match="No such file"):
        KernelLog(tmp_path / "kmsg")


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's log of this machine cannot be read")
def test_the_kernel_log_of_this_machine_is_read_from_now_on() -> None:
    log = KernelLog(Path("/dev/kmsg"))
    assert len(log.read().events) <= MAX_EVENTS
    log.close()


def process(root: Path, pid: int, name: str, parent: int, ticks: int) -> None:
    flags = 0x4208060 if name.startswith("kworker") else 0x400140  # as Linux 6.18 has them of such
    fields = ["R", str(parent), *["0"] * 4, str(flags), *["0"] * 4, str(ticks), "0", *["0"] * 20]
    write(root / str(pid), "stat", f"{pid} ({name}) {' '.join(fields)}")
    write(root / str(pid), "status", "Name: x")


def test_who_takes_the_processors_is_named_and_the_job_itself_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(100, 200))
    monkeypatch.setattr(others.time, "monotonic", lambda: float(next(clock)) / 2)
    ticks, used = os.sysconf("SC_CLK_TCK"), 0
    tree = {10: ("raylet", 1), 20: ("rank", 10), 21: ("loader", 20), 30: ("stress ng", 2), 40: ("kworker/0", 2)}

    def step(waited: float) -> None:
        nonlocal used
        used += ticks
        for pid, (name, parent) in tree.items():
            process(tmp_path, pid, name, parent, used)
        write(tmp_path, "pressure/cpu", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={int(waited * 1e6)}")

    step(0)
    source = Others(tmp_path, Processes(tmp_path, (20,)))
    assert source.read().values == {}
    for waited in (0.01, 0.02):  # nobody waits: nothing is looked at
        step(waited)
        assert source.read().values == {}
    step(1)
    assert source.read().values == {}  # the first look has nothing to compare with
    step(2)
    sample = source.read()
    assert [(one.device, one.text) for one in sample.events] == [("30", "stress ng")]
    assert sample.values == {"other/30/processors_used": pytest.approx(1.0, abs=0.6)}
    step(3)
    again = source.read()
    assert again.events == ()
    assert again.values.keys() == sample.values.keys()
    assert Others(tmp_path, Processes(tmp_path)).read().values == {}  # no rank is known


def test_a_log_that_grows_and_tells_nothing_new_is_looked_at_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("diagnostics.agent.sources.nccl_logs.time.monotonic", lambda: now[0])
    monkeypatch.setattr("diagnostics.agent.sources.nccl_logs.time.thread_time", lambda: 0.0)
    path = tmp_path / "rank0.log"
    path.write_text(FALLBACK)
    logs = NcclLogs([str(path)])
    assert logs.read().findings != ()
    for _ in range(SETTLED_LOOKS + 1):
        assert logs.read().findings == ()
    monkeypatch.setattr("diagnostics.agent.sources.nccl_logs.time.thread_time", iter([0.0, 1.0, 1.0, 1.0]).__next__)
    logs.read()  # takes a second
    with path.open("a") as stream:
        stream.write("n1:1:2 [0] NCCL WARN Cuda failure 'an illegal memory access was encountered'\n")
    now[0] += MOST_SECONDS - 0.1
    assert logs.read().findings == ()
    now[0] += 0.2
    assert logs.read().findings != ()


def test_a_log_that_comes_later_is_read_and_its_finding_is_told_once(tmp_path: Path) -> None:
    logs = NcclLogs([str(tmp_path / "rank*.log")])
    assert logs.read().findings == ()
    path = tmp_path / "rank0.log"
    head, tail = FALLBACK[:300], FALLBACK[300:]
    path.write_text(head)
    early = logs.read().findings
    with path.open("a") as stream:
        stream.write(tail)
    told = [one.rule for one in (*early, *logs.read().findings)]
    assert told.count("tcp-fallback") == 1
    with path.open("a") as stream:
        stream.write("n1:100:120 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n")
    assert logs.read().findings == ()


@pytest.mark.parametrize("how", ["rotated", "truncated", "rotated, and longer by now"])
def test_a_log_that_is_rotated_or_cut_is_read_from_its_start(tmp_path: Path, how: str) -> None:
    path = tmp_path / "nccl.log"
    path.write_text("n1:100:100 [0] NCCL INFO cudaDriverVersion 12040\n" * 100)
    logs = NcclLogs([str(path)])
    assert logs.read().findings == ()
    if how != "truncated":
        path.rename(tmp_path / "nccl.log.1")
    path.write_text(FALLBACK + "n1:100:100 [0] NCCL INFO cudaDriverVersion 12040\n" * (200 if "longer" in how else 0))
    assert "tcp-fallback" in {one.rule for one in logs.read().findings}


@pytest.mark.timed
def test_an_agent_warns_of_a_fallback_within_five_seconds_of_the_line(tmp_path: Path) -> None:
    root = machine(tmp_path)
    said: list[Message] = []
    options = AgentOptions(
        host="n1", interval_seconds=0.2, sys=root / "sys", proc=root / "proc", kernel_log=tmp_path / "none"
    )

    def emit(message: Message) -> None:
        said.append(message)
        if isinstance(message, Warned) and message.finding.rule == "tcp-fallback":
            agent.stop()

    agent = Agent(options, emit)
    agent.watch(Watch(logs=(str(tmp_path / "late.log"),)))
    (tmp_path / "late.log").write_text(FALLBACK)
    began = time.monotonic()
    agent.run(rounds=30)
    assert time.monotonic() - began < 5
    warned = next(one for one in said if isinstance(one, Warned) and one.finding.rule == "tcp-fallback")
    assert warned.line in FALLBACK
    back = decode(encode(warned))
    assert isinstance(back, Warned)
    assert back.finding.evidence == warned.finding.evidence
