"""Readers of what hosts, their kernels, their tools and a scheduler say: part of the table in ``readers``."""

import bz2
import gzip
import json
import lzma
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from diagnostics.agent.sources.base import OpenSource, Sample, SourceUnavailableError
from diagnostics.agent.sources.cpu_limits import CpuLimits
from diagnostics.agent.sources.host import Host
from diagnostics.agent.sources.kernel_log import KernelLog
from diagnostics.agent.sources.nics import Nics
from diagnostics.agent.sources.others import Others, _processes
from diagnostics.agent.sources.ports import Ports
from diagnostics.agent.sources.processes import Processes
from diagnostics.agent.sources.tcp_connections import read_connections
from diagnostics.errors import UnreadableInputError
from diagnostics.follow import Tail
from diagnostics.inputs.files import Input
from diagnostics.inputs.reader import read_batches
from diagnostics.reading import Reading
from raybench.benchmarks.checkpoint.manifest import CheckpointError
from raybench.benchmarks.checkpoint.storage import compress, decompress
from raybench.benchmarks.node_tests.dcgm_answer import read_diag
from raybench.benchmarks.training.data.files import read_text
from raybench.comparison.parameters import parameters_of
from raybench.comparison.tools.beside import failure_said, is_cut, is_ours
from raybench.comparison.tools.inspector import inspector_events
from raybench.comparison.tools.nccl_tests_file import tests_file_side
from raybench.documents.reading import DocumentError
from raybench.errors import IncompleteRunError, UsageError
from raybench.execution.ranks.native_stack import main_frames
from raybench.execution.ray_cluster.head_facts import reason_of
from raybench.hosts.host_facts import summary_of
from raybench.hosts.inventory_draft import hosts_of, read_hostfile
from raybench.launchers.ended_job import FILE, EndedJob, JobNode, read_ended
from raybench.launchers.kubernetes.trouble import of_kubectl
from raybench.launchers.slurm.job_output import output_of
from raybench.launchers.slurm.job_state import job_of
from raybench.launchers.slurm.messages import NodeState
from raybench.launchers.slurm.node_step import state_in
from raybench.launchers.slurm.time_limit import seconds_of
from raybench.metadata import parse_gpu_query
from raybench.nodes.kubernetes import read_nodes
from raybench.performance_model.models.config import model_of_config
from raybench.preflight.checks import CHECKS, evaluate
from raybench.preflight.login import answer_within, login_stage, no_answer
from raybench.preflight.node_tests.answer import read_answer
from raybench.services.top_hosts import WatchedHosts
from raybench.timeline.agent_file import agent_samples
from tests.diagnostics.agent.machine import PROC, machine
from tests.diagnostics.inputs.test_tests_results import DOCUMENT, HALF, ROW
from tests.preflight.alarm_table import ALARM_CASES
from tests.preflight.hosts import host
from tests.preflight.node_tests.answers import figure, load
from tests.preflight.test_checks import CASES
from tests.security.reader import Reader, in_probe, kept, parse_all, read_file

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS.parent / "playbooks"))  # where hosts' modules find each other
from module_utils.raybench_fabric_talk import _read_line
from module_utils.raybench_probe.filters import FILTERS
from module_utils.raybench_probe.settings import variables_in

_PID = 7
_STAT = b"7 (a) b) S 1 7 7 0 -1 4194560 100 0 2 0 30 10 0 0 20 0 1 0 99 1000000 250 18446744073709551615"
_STATUS = b"Name:\ta\nState:\tS (sleeping)\nvoluntary_ctxt_switches:\t15\nnonvoluntary_ctxt_switches:\t2\n"
_KMSG = (
    b"4,1,5678901,-;NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus.\n SUBSYSTEM=pci\n"
    b"4,2,5678902,-;mlx5_core 0000:5c:00.0 ens1: Link down\n"
)


_GROUP = (b"0::/job\n", b"50000 100000\n", b"nr_periods 50\nnr_throttled 46\nthrottled_usec 4200000\n")
_FILES = {
    "proc/7/stat": _STAT,
    "proc/7/status": _STATUS,
    "kmsg": b"",
    "proc/7/cgroup": _GROUP[0],
    "sys/fs/cgroup/cgroup.procs": b"",
    "sys/fs/cgroup/job/cpu.max": _GROUP[1],
    "sys/fs/cgroup/job/cpu.stat": _GROUP[2],
}


@contextmanager
def open_sources(root: Path) -> Iterator[list[OpenSource]]:
    """Those of the machine's sources that open."""
    found: list[OpenSource] = []
    watched = Processes(root / "proc", (_PID,), CpuLimits(root / "proc", root / "sys"))
    for begin in (
        lambda: watched,
        lambda: Host(root / "proc"),
        lambda: Ports(root / "sys/class/infiniband"),
        lambda: Nics(root / "sys/class/net"),
        lambda: Others(root / "proc", watched),
        lambda: KernelLog(root / "kmsg"),
    ):
        with suppress(SourceUnavailableError):
            found.append(begin())
    try:
        yield found
    finally:
        for one in found:
            one.close()


def read_machine(data: bytes) -> list[object]:
    """A machine that is whole as the agent opens it, and each of whose files then holds these bytes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root = machine(Path(folder))
        for name, content in _FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        with open_sources(root) as sources:
            for path in root.rglob("*"):
                if path.is_file():
                    path.write_bytes(data)
            readings = [*_readings(sources), *_readings(sources)]  # of processes, more is told the second time
        with open_sources(root) as sources:
            readings += _readings(sources)
        dict(_processes(root / "proc"))
    told = [one for one in readings if one.values or one.events]
    return [*told, *read_connections(data)]


def _readings(sources: Sequence[OpenSource]) -> list[Sample]:
    """Of those that can be read."""
    found = []
    for one in sources:
        with suppress(SourceUnavailableError):
            found.append(one.read())
    return found


def kernel_files() -> list[bytes]:
    return [text.encode() for text in PROC.values()] + [
        _STAT,
        _STATUS,
        _KMSG,
        *_GROUP,
        (TESTS / "diagnostics/agent/sock_diag.bin").read_bytes(),
        b"4: ACTIVE",
        b"400 Gb/sec (4X NDR)",
    ]


@cache
def all_readings() -> Mapping[str, Any]:
    """What a host has that has everything: programs and files of all cases of the checks."""
    found: dict[str, Any] = {}
    for reading in (*(one.fires for one in ALARM_CASES), *(case[1] for case in CASES)):
        for name, one in reading.items():
            if isinstance(one, dict) and "values" in one and name in found:
                found[name] = found[name] | {"values": found[name]["values"] | one["values"]}
            else:
                found[name] = one
    return found


def programs() -> list[bytes]:
    """What the cases of the checks have programs print and files hold, each behind its name."""
    found = []
    for readings in (*(one.fires for one in ALARM_CASES), *(one.near for one in ALARM_CASES), *(c[1] for c in CASES)):
        for name, one in readings.items():
            found += (
                [(name, one)] if isinstance(one, str) else [(name, one.get("text")), *one.get("values", {}).items()]
            )
    return [f"{name}\n{text}".encode() for name, text in dict.fromkeys(found) if isinstance(text, str)]


def judge_programs(data: bytes) -> object:
    """All checks of a host on which a program or a file says these bytes; all of them where none is named."""
    name, _, text = data.decode("utf-8", "replace").partition("\n")
    whole = all_readings()
    group = next((group for group, one in whole.items() if name in _files(one)), "")
    if group:
        readings = {**whole, group: whole[group] | {"values": _files(whole[group]) | {name: text}}}
    elif name in whole:
        readings = {**whole, name: _saying(whole[name], text)}
    else:
        readings = {one: _saying(reading, text) for one, reading in whole.items()}
    results = evaluate(host(readings), CHECKS)
    broken = [f"{one.check}: {one.seen}" for one in results if one.verdict == "error"]
    if broken:
        raise AssertionError("; ".join(broken))
    return results


def _saying(reading: Any, text: str) -> Any:
    if isinstance(reading, str):
        return text
    if "values" in reading:
        return reading | {"values": dict.fromkeys(reading["values"], text)}
    return reading | {"text": text} if "text" in reading else reading


def _files(reading: Any) -> Mapping[str, Any]:
    return reading.get("values", {}) if isinstance(reading, dict) else {}


def read_login(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    return [answer_within(text), no_answer(text), login_stage(text, ""), login_stage("", text)]


def logins() -> list[bytes]:
    answer = json.dumps({"packed": "eJw=", "changed": False}).encode()
    debug = b"debug1: Connection established.\ndebug1: Remote protocol version 2.0\nAuthenticated to a using publickey."
    return [b"Welcome\n" + answer + b"\n", answer[:9], debug, b"raybench-shell-answers\nraybench-python-answers\n"]


def node_answers() -> list[Any]:
    common = {
        "schema": "raybench.node_test/1",
        "python": "/py",
        "why_no_torch": "",
        "problem": "",
        "errors": "",
        "seconds": 9,
    }
    facts = {"facts": {"pid_namespace": "x", "processors": 8, "torch": "2.6"}}
    return [common | {"lines": [facts, {"begun": "gemm"}, figure("gemm", (1.0, 2.0)), *load()]}]


def read_facts(data: bytes) -> object:
    """What the commands of a host print, all of them the same."""
    from raybench.hosts.host_facts import COMMANDS

    return {name: one for name, one in summary_of(dict.fromkeys(COMMANDS, data)).items() if one}


def host_texts() -> list[bytes]:
    return [
        b"Linux gpu-01 6.1.0 #1 SMP x86_64 GNU/Linux",
        b'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12"\n',
        b"64\n",
        b"MemTotal:       65855064 kB\nMemFree:         1 kB\n",
        b"0, GPU-6d3e, NVIDIA H200, 00000000:3D:00.0, 580.159.04, 143771\n",
    ]


def hear_host(data: bytes) -> object:
    """What stands on the screen of ``raybench top HOST`` after a host has said these bytes."""
    watched = WatchedHosts(names=("a",))
    watched.heard("a", data + b"\n")
    return watched.state()


def talk(data: bytes) -> object:
    """What an agent of a fabric test takes of a peer."""
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        with suppress(BlockingIOError):
            there.send(data + b"\n")
        there.shutdown(socket.SHUT_WR)
        return _read_line(here)


def filtered(data: bytes) -> list[str]:
    text = data.decode("utf-8", "replace")
    return [one for one in (keep(text) for keep in FILTERS.values()) if one] + list(variables_in(text))


def slurm_state(data: bytes) -> object:
    return state_in(data)


def unpacked(data: bytes) -> list[bytes]:
    """The bytes of a part, by each way in which they may have been stored."""
    found = []
    for how in ("zlib", "zstd", "none"):
        with suppress(CheckpointError):
            found.append(decompress(data, how, 64))
    return found


def read_logs(data: bytes) -> object:
    """A log as it is, packed or not, and as one that grows."""
    with kept(data, "it.log") as path:
        file, reading = Input(name=str(path)), Reading()
        for batch in (*read_batches(file), *Tail(file).read()):
            reading.feed(batch)
        reading.flush()
        return reading


def logs() -> list[bytes]:
    plain = b"h:1:2 [0] NCCL INFO Using network Socket\n"
    wrapped = json.dumps({"log": plain.decode()}).encode() + b"\n"
    packed = [gzip.compress(plain, mtime=0), bz2.compress(plain), lzma.compress(plain), compress(plain, "zstd")]
    return [plain, wrapped, plain.decode().encode("utf-16"), *packed]


def job_texts() -> list[bytes]:
    from tests.launchers.test_slurm import PENDING, RUNNING, TIMEOUT

    return [one.encode() for one in (PENDING, RUNNING, TIMEOUT, "1-12:30:00", "UNLIMITED")]


def stacks() -> list[Any]:
    frame = {"name": "epoll_wait", "filename": "/usr/lib/libc.so.6", "line": 0}
    return [[{"os_thread_id": 7, "frames": [frame, frame]}, {"os_thread_id": None, "frames": []}]]


def ended_jobs() -> list[Any]:
    job = EndedJob(job_id="7", command=("run",), exit_code=1, nodes=(JobNode(name="n1", reason="no route"),))
    return [msgspec.to_builtins(job)]


def agent_files() -> Sequence[bytes]:
    return [(TESTS / "timeline/imported/agent.jsonl").read_bytes()]


TRAINED = b"world size: 4\nepoch 3: val_loss: 0.31, val_accuracy: 91.2%\nTotal training time: 95.23 seconds\n"


def read_output(data: bytes) -> list[object]:
    """What a job of Slurm printed, a line after the other."""
    output = output_of(data.decode("utf-8", "replace").splitlines())
    return [one for one in (*output.tests, output.training) if one is not None]


def tests_result() -> dict[str, Any]:
    """With the times of each iteration."""
    return {**DOCUMENT, "results": [{**ROW, "in_place": HALF, "in_place_per_iter": {"times_us": [30.0, 31.5]}}]}


def nccl_tests() -> list[bytes]:
    table = (
        b"# Collective test starting: all_reduce_perf\n"
        b" 1048576 262144 float sum -1 31.20 33.61 63.02 0 30.9 33.9 63.6 0\n"
        b"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 63.31\n"
    )
    return [table]


def diag() -> list[Any]:
    result = {"entity_group": "GPU", "entity_id": 0, "status": "Pass"}
    test = {"name": "memory", "results": [result], "test_summary": {"status": "Pass"}}
    return [{"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [test]}]}}]


def kube_nodes() -> list[Any]:
    return [{"items": [{"metadata": {"name": "n1"}, "spec": {"unschedulable": True}, "status": {"addresses": []}}]}]


LLAMA = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 256, "num_key_value_heads": 2}  # fmt: skip
JOBS = (job_of, seconds_of, reason_of)
HOST_READERS: dict[str, Reader] = {
    "agent's file": Reader(read=read_file(agent_samples, "it.jsonl"), seeds=agent_files, refuses=(DocumentError,)),
    "agents of hosts": Reader(read=hear_host, seeds=agent_files),
    "config of a model": Reader(
        read=read_file(lambda path: model_of_config(str(path)), "config.json"),
        seeds=lambda: [LLAMA],
        refuses=(UsageError,),
    ),
    "DCGM's diagnostic": Reader(read=lambda data: read_diag(data.decode("utf-8", "replace")), seeds=diag),
    "data to train on": Reader(
        read=read_file(lambda path: read_text(str(path)), "it.jsonl"),
        seeds=lambda: [b'{"text": "one"}\n{"content": "two"}\n', {"text": "one", "id": 7}],
        refuses=(UsageError,),
    ),
    "fabric talk": Reader(read=talk, seeds=lambda: [{"token": "t", "ask": "round", "n": 3}], refuses=(ValueError,)),
    "facts of a host": Reader(read=read_facts, seeds=host_texts),
    "filters of the probe": Reader(read=filtered, seeds=programs),
    "GPUs of a host": Reader(read=parse_all([parse_gpu_query]), seeds=host_texts),
    "host file": Reader(
        read=read_file(lambda path: hosts_of(read_hostfile(path)), "hosts"),
        seeds=lambda: [b"node1 slots=8\nnode2:8\n# none\nuser@node3\n", b"gpu-[01-10]\n"],
        refuses=(UsageError,),
    ),
    "kernel's files": Reader(read=read_machine, seeds=kernel_files, refuses=(SourceUnavailableError,), inputs_in_ci=40),
    "kubectl": Reader(
        read=parse_all([of_kubectl]),
        seeds=lambda: [b'Error from server (Forbidden): pods "a" is forbidden: exceeded quota: q'],
    ),
    "kubectl's nodes": Reader(
        read=lambda data: read_nodes(data.decode("utf-8", "replace")), seeds=kube_nodes, refuses=(IncompleteRunError,)
    ),
    "launched job": Reader(
        read=read_file(lambda path: read_ended(path.parent), FILE), seeds=ended_jobs, refuses=(IncompleteRunError,)
    ),
    "NCCL Inspector": Reader(
        read=lambda data: [list(inspector_events(data.decode("utf-8", "replace")))], seeds=lambda: [{"header": {}}]
    ),
    "parameters of a baseline": Reader(
        read=lambda data: [parameters_of(data.decode("utf-8", "replace"))],
        seeds=lambda: [{"batch_size": 8}],
    ),
    "files beside results": Reader(
        read=lambda data: [one(data.decode("utf-8", "replace")) for one in (is_ours, is_cut, failure_said)],
        seeds=lambda: [{"status": "failed", "schema": "raybench.standalone/1"}],
    ),
    "nccl-tests' file": Reader(
        read=lambda data: [tests_file_side("it", data.decode("utf-8", "replace"))],
        seeds=lambda: [tests_result()],
        refuses=(UsageError,),
    ),
    "nccl-tests of a job": Reader(read=read_output, seeds=lambda: [*nccl_tests(), TRAINED]),
    "login": Reader(read=read_login, seeds=logins),
    "logs of any packing": Reader(read=read_logs, seeds=logs, refuses=(UnreadableInputError,)),
    "node tests": Reader(
        read=lambda data: read_answer(data.decode("latin-1"), "m"), seeds=node_answers, encode=in_probe
    ),
    "parts of a checkpoint": Reader(
        read=unpacked, seeds=lambda: [compress(bytes(64), "zlib"), compress(bytes(64), "zstd"), bytes(64)]
    ),
    "programs of a host": Reader(read=judge_programs, seeds=programs, inputs_in_ci=40),
    "Slurm": Reader(read=parse_all(JOBS, (UsageError,)), seeds=job_texts),
    "Slurm's node": Reader(
        read=slurm_state, seeds=lambda: [msgspec.to_builtins(NodeState(phase="ready", address="a:1", token_path="/t"))]
    ),
    "stacks of py-spy": Reader(read=lambda data: main_frames(data, 7), seeds=stacks),
}
