"""What comes first is on top: causes and their consequences in one log, each with a near miss beside it."""

from collections.abc import Sequence

import pytest

from diagnostics.findings import Diagnosis
from tests.diagnostics import threads

A, B = "n1:41:41 [0] ", "n2:42:42 [0] "
BOTH = (A, B)
VERSION = [A + "NCCL INFO NCCL version 2.27.5+cuda12.8"]
NODES = [
    f"{rank}NCCL INFO comm 0x{number + 5} rank {number} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0"
    for number, rank in enumerate(BOTH)
]
COMPLETE = [
    f"{rank}NCCL INFO ncclCommInitRank comm 0x{number + 5} rank {number} nranks 2 cudaDev 0 nvmlDev 0 busId 1000 "
    "commId 0xab - Init COMPLETE"
    for number, rank in enumerate(BOTH)
]
NO_DEVICE = [rank + "NCCL INFO NET/IB : No device found." for rank in BOTH]
TCP = [
    *(f"{rank}NCCL INFO NET/Socket : Using [0]eth0:10.0.0.{number}<0>" for number, rank in enumerate(BOTH, start=1)),
    *(rank + "NCCL INFO Using network Socket" for rank in BOTH),
]
RESULTS = ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 5.0"]
OFI = [A + "NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)", A + "NCCL INFO Using network AWS Libfabric"]
CLOSED = "socketProgress: Connection closed by remote peer n2<45678>"
UNROUTED = (
    "socketPollConnect: Connect to 10.0.0.2<5> returned 113(No route to host) errno 115(Operation now in progress)"
)
REFUSED = (
    "socketPollConnect: Connect to 10.0.0.2<5> returned 111(Connection refused) errno 115(Operation now in progress)"
)
TIMED_OUT = (
    "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR"
)
RETRIES = "NET/IB: Got completion from peer 10.0.0.2<4> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0"


CANNOT_OPEN = "transport/net_ib.cc:149 NCCL WARN NET/IB : Unable to open device mlx5_0"
NO_VERBS = "NCCL INFO Failed to open libibverbs.so[.1]"
ONE_NODE = [
    f"{rank}NCCL INFO comm 0x{number + 5} rank {number} nRanks 2 nNodes 1 localRanks 2 localRank {number} MNNVL 0"
    for number, rank in enumerate(BOTH)
]
NONE_ON_B = [B + "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0>", B + "NCCL INFO Using network Socket"]
IB_TO_TCP = [
    A + "NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
    B + "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0",
]
STACK_ON_B = [B + f"NCCL INFO {frame} -> 3" for frame in ("transport.cc:183", "init.cc:1263", "init.cc:1548")]
UNAVAILABLE = (
    "socketStartConnect: connect to 10.0.0.2<5> returned Resource temporarily unavailable, retrying ({}/34) after sleep"
)
EXTENDED = (
    "fallocate: Failed to extend /dev/shm/nccl-a to 34210180 bytes, error: Interrupted system call (4) - retrying"
)


def verbs(first: str = "IB", second: str = "IB") -> list[str]:
    lists = [f"NET/IB : Using [0]mlx5_0:1/{layer} [RO]; OOB eth0:10.0.0.1<0>" for layer in (first, second)]
    used = [f"{rank}NCCL INFO {text}" for rank, text in zip(BOTH, lists, strict=True)]
    return used + [rank + "NCCL INFO Using network IB" for rank in BOTH]


ON_A = [line for line in verbs() if line.startswith(A)]


def channels(via: str) -> list[str]:
    return [f"{rank}NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via {via}" for rank in BOTH]


def warned(text: str) -> list[str]:
    return [f"{A}misc/socket.cc:50 NCCL WARN {text}"]


def info(text: str) -> list[str]:
    return [f"{A}NCCL INFO {text}"]


def diagnosis_of(parts: Sequence[list[str]]) -> Diagnosis:
    return threads.diagnose("\n".join(line for part in (VERSION, *parts) for line in part))


OVER_TCP = channels("NET/Socket/0")
OVER_IB = channels("NET/IB/0/GDRDMA")


@pytest.mark.parametrize(
    ("parts", "top", "verdict"),
    [
        # a slow path is never the cause of a failed connection
        (
            [NO_DEVICE, TCP, info("NCCL_IB_HCA set to mlx5_0"), NODES, warned(REFUSED)],
            "bootstrap-unreachable",
            "critical",
        ),
        ([verbs(), NODES, channels("NET/IB/0"), COMPLETE, warned(RETRIES)], "ib-retry-exceeded", "critical"),
        ([verbs(), NODES, channels("NET/IB/0"), COMPLETE], "gdr-missing", "warning"),
        # what kept RDMA away stands above the fallback
        (
            [info("NCCL_IB_HCA set by environment to mlx9_0"), NO_DEVICE, TCP, NODES, OVER_TCP, COMPLETE],
            "hca-filter-excludes-all",
            "critical",
        ),
        (
            [warned("NET/IB : Unable to open device mlx5_0"), TCP, NODES, OVER_TCP, COMPLETE],
            "rdma-device-not-openable",
            "",
        ),
        ([NO_DEVICE, TCP, NODES, OVER_TCP, COMPLETE], "tcp-fallback", "warning"),
        # what kept one rank from the network of the others stands above their disagreement
        ([ON_A, [B + CANNOT_OPEN], NONE_ON_B, NODES, warned(CLOSED)], "rdma-device-not-openable", "critical"),
        ([ON_A, [B + CANNOT_OPEN], NONE_ON_B, NODES, IB_TO_TCP, STACK_ON_B], "rdma-device-not-openable", "critical"),
        ([ON_A, [B + CANNOT_OPEN], NONE_ON_B, ONE_NODE, COMPLETE], "", "ok"),
        ([ON_A, [B + NO_VERBS], NONE_ON_B, NODES, warned(CLOSED)], "libibverbs-missing", "critical"),
        ([ON_A, NONE_ON_B, NODES, warned(CLOSED)], "ranks-disagree-on-transport", "critical"),
        ([verbs(), [B + CANNOT_OPEN.replace("mlx5_0", "mlx5_1")], NODES, OVER_IB, COMPLETE], "", "ok"),
        ([ON_A, NONE_ON_B, ONE_NODE, COMPLETE], "", "ok"),
        # interfaces that cannot be listed for want of a descriptor
        (
            [warned("Call to getifaddrs failed: Too many open files"), warned("Failed to initialize any NET plugin")],
            "file-limit",
            "critical",
        ),
        ([warned("Call to getifaddrs failed: Permission denied")], "no-socket-interface", "critical"),
        # a log that ends with what fails again and again
        ([verbs(), NODES, COMPLETE, info(UNAVAILABLE.format(6))], "bootstrap-unreachable", "critical"),
        ([verbs(), NODES, COMPLETE, info(UNAVAILABLE.format(1))], "", "unknown"),
        ([verbs(), NODES, info(UNAVAILABLE.format(1)), OVER_IB, COMPLETE], "", "ok"),
        ([verbs(), NODES, COMPLETE, info(EXTENDED)], "", "unknown"),
        ([verbs(), NODES, info(EXTENDED), OVER_IB, COMPLETE], "", "ok"),
        # a link that is lost after data had flowed is no wrong interface
        ([NO_DEVICE, TCP, NODES, OVER_TCP, COMPLETE, warned(UNROUTED)], "bootstrap-unreachable", "critical"),
        ([NO_DEVICE, TCP, NODES, warned(UNROUTED)], "wrong-interface", "critical"),
        # a CUDA error of an allocation is out-of-memory only where it says so
        (
            [verbs(), warned("Cuda failure 'invalid argument'"), warned("Failed to CUDA malloc 64 bytes")],
            "cuda-error",
            "",
        ),
        (
            [verbs(), warned("Cuda failure 'out of memory'"), warned("Failed to CUDA malloc 64 bytes")],
            "gpu-out-of-memory",
            "critical",
        ),
        # ranks that leave with their work done are not dead
        ([verbs(), NODES, OVER_IB, COMPLETE, RESULTS, warned(CLOSED)], "", "ok"),
        ([verbs(), NODES, OVER_IB, COMPLETE, RESULTS, info("RAS declaring peer 10.0.0.2<42> as DEAD")], "", "ok"),
        ([verbs(), NODES, OVER_IB, COMPLETE, warned(CLOSED), RESULTS], "peer-died", "critical"),
        ([verbs(), NODES, OVER_IB, COMPLETE, info("RAS declaring peer 10.0.0.2<42> as DEAD")], "peer-died", "critical"),
        # two versions of the library in one log
        ([[B + "NCCL INFO NCCL version 2.26.2+cuda12.8"], verbs(), warned(CLOSED)], "version-mismatch", "critical"),
        ([[B + "NCCL INFO NCCL version 2.27.5+cuda12.4"], verbs(), warned(CLOSED)], "peer-died", "critical"),
        # InfiniBand on one rank and RoCE on the other
        ([verbs("IB", "RoCE"), NODES, warned(TIMED_OUT)], "hca-mixed-link-layers", "critical"),
        ([verbs("RoCE", "RoCE"), NODES, warned(TIMED_OUT)], "ib-connect-failed", "critical"),
        # a plugin that is named and absent
        (
            [info("NET/Plugin: Could not find: foo libnccl-net-foo.so."), TCP, NODES, OVER_TCP],
            "net-plugin-missing",
            "warning",
        ),
        ([info("NET/Plugin: Could not find: libnccl-net-none.so."), TCP, NODES, OVER_TCP], "tcp-fallback", "warning"),
        ([info("NET/Plugin: Could not find: libnccl-net.so."), verbs(), NODES, OVER_IB, COMPLETE], "", "ok"),
    ],
)
def test_the_cause_is_on_top(parts: Sequence[list[str]], top: str, verdict: str) -> None:
    diagnosis = diagnosis_of(parts)
    found = [finding for finding in diagnosis.findings if finding.severity != "info"]
    assert (found[0].rule if found else "") == top
    assert verdict in ("", diagnosis.verdict)


@pytest.mark.parametrize(
    ("parts", "severity", "said", "action"),
    [
        (
            [info("NET/Plugin: libnccl-net.so: libfabric.so.1: cannot open shared object file: No such file"), TCP],
            "critical",
            "NCCL went on with the next network in its list: socket",
            "check-plugin-libraries",
        ),
        (
            [info("NET/Plugin: libnccl-net.so: libfabric.so.1: cannot open shared object file: No such file")],
            "warning",
            "does not show which network",
            "check-plugin-libraries",
        ),
        (
            [warned("NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument")],
            "critical",
            "does not show which network",
            "open-provider",
        ),
        (
            [
                OFI,
                NODES,
                channels("NET/AWS Libfabric/0"),
                warned("NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument"),
            ],
            "critical",
            "no other takes over",
            "open-provider",
        ),
        (
            [
                OFI,
                warned("NET/OFI Couldn't open AV. RC: -22, ERROR: x"),
                NODES,
                channels("NET/AWS Libfabric/0"),
                COMPLETE,
            ],
            "warning",
            "refuse what the plugin asks for",
            "open-provider",
        ),
        (
            [
                OFI,
                COMPLETE,
                warned("NET/OFI Request 0x5 completed with error. RC: 113. Error: 4113 (Unresponsive receiver)"),
            ],
            "critical",
            "receiver's process or host",
            "plugin-path",
        ),
        (
            [OFI, warned("NET/OFI Unable to register memory (type = 2) for device 0. RC: -14, Error: Bad address")],
            "critical",
            "memory that NCCL handed it",
            "check-plugin-registration",
        ),
    ],
)
def test_the_stages_of_a_plugin_are_told_apart(
    parts: Sequence[list[str]], severity: str, said: str, action: str
) -> None:
    finding = next(one for one in diagnosis_of(parts).findings if one.rule == "net-plugin-broken")
    assert finding.severity == severity
    assert said in finding.explanation
    assert action in {one.action for one in finding.recommendations}


def test_efa_without_its_plugin_on_purpose_is_no_fallback_but_said() -> None:
    command = ["mpirun -np 2 -x FI_PROVIDER=efa -x NCCL_NET_PLUGIN=none -x NCCL_DEBUG=INFO ./all_reduce_perf"]
    diagnosis = diagnosis_of([command, NO_DEVICE, TCP, NODES, OVER_TCP, COMPLETE])
    assert diagnosis.tcp_fallback is False
    finding = next(one for one in diagnosis.findings if one.rule == "rdma-disabled-by-env")
    assert finding.severity == "warning"
    assert "NCCL_NET_PLUGIN=none" in finding.summary


def test_no_plugin_is_nothing_where_verbs_need_none() -> None:
    command = ["mpirun -np 2 -x NCCL_NET_PLUGIN=none -x NCCL_DEBUG=INFO ./all_reduce_perf"]
    diagnosis = diagnosis_of([command, verbs(), NODES, OVER_IB, COMPLETE])
    assert diagnosis.verdict == "ok"
    assert not diagnosis.findings


NVLINK = "P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case given their connectivity"
VERBS = "Failed to open libibverbs.so[.1]"
RESULT = "[1,0]<stderr>:horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: unhandled system error"


@pytest.mark.parametrize(("warned", "top"), [
    (f"graph/paths.cc:341 NCCL WARN {NVLINK}", "p2p-disabled"),
    (f"misc/ibvwrap.cc:63 NCCL WARN {VERBS}", "run-failed"),  # NCCL goes on with sockets
    ("misc/ibvwrap.cc:63 NCCL WARN Call to ibv_open_device failed", "run-failed"),
])  # fmt: skip
def test_without_a_stack_the_last_warning_before_a_result_is_what_nccl_stopped_at(warned: str, top: str) -> None:
    """NCCL_DEBUG=WARN shows no stack."""
    diagnosis = threads.diagnose(f"{A}{warned}\n{RESULT}\n")
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == ("critical", top)


@pytest.mark.parametrize(("between", "top"), [
    ("step 1 | loss 2.9\nstep 2 | loss 2.8\n", "run-failed"),
    (" iteration 1/ 100 | lm loss: 1.8E+00 |\n iteration 2/ 100 | lm loss: 1.7E+00 |\n", "run-failed"),  # indented
    ("       8   2   float   sum  -1  20.1  0.05  0.09  0  20.0  0.05  0.09  0\n", "run-failed"),  # of nccl-tests
    ("step 1 | loss 2.9\n", "p2p-disabled"),
    (" 12%|#| 12/100 [00:10<01:10, 1.2it/s, loss=2]\n 12%|#| 12/100 [00:11<01:10, 1.2it/s, loss=2]\n", "p2p-disabled"),
    ("(W pid=9 ) step 1 | loss 2.9\n(W pid=9 ) step 2 | loss 2.8\n", "p2p-disabled"),  # of another process
])  # fmt: skip
def test_a_warning_that_the_program_worked_after_is_not_what_nccl_stopped_at(between: str, top: str) -> None:
    """At NCCL_DEBUG=WARN, where nothing of NCCL's shows that a communicator came to be."""
    diagnosis = threads.diagnose(f"{A}graph/paths.cc:341 NCCL WARN {NVLINK}\n{between}{RESULT}\n")
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == ("critical", top)
    assert "loss" not in diagnosis.findings[0].evidence[0].text


@pytest.mark.parametrize("warned", [
    "graph/xml.cc:70 NCCL WARN Could not open XML topology file /a.xml : No such file or directory",
    "transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_0:1 Got async event : GID table change",
])  # fmt: skip
def test_a_warning_from_before_the_work_is_not_what_nccl_stopped_at(warned: str) -> None:
    steps = "".join(f"step {number} | loss 2.{number} | 812 ms/it\n" for number in range(5))
    diagnosis = threads.diagnose(f"{A}{warned}\n{steps}{RESULT.replace('system', 'remote')}\n")
    assert (diagnosis.verdict, diagnosis.findings[0].rule) == ("critical", "run-failed")


def test_calls_refused_once_a_rank_was_killed_are_a_consequence() -> None:
    killed = "srun: error: node1: task 1: Out Of Memory\n"
    refused = f"{A}argcheck.cc:30 NCCL WARN AllReduce : comm 0x0 is not a valid pointer\n"
    assert threads.diagnose(killed + refused).findings[0].rule == "peer-died"
    assert threads.diagnose(refused + killed).findings[0].rule == "run-failed"


@pytest.mark.parametrize(("completes", "verdict"), [(False, "unknown"), (True, "ok")])
def test_a_communicator_that_nobody_completes_beside_one_that_works_is_not_ok(completes: bool, verdict: str) -> None:
    """Two jobs in one file, or ranks that hang."""
    begun = [line.replace("Init COMPLETE", "Init START") for line in COMPLETE]
    others = [line.replace(":41:41", ":51:51").replace(":42:42", ":52:52").replace("0xab", "0xcd") for line in begun]
    ended = [line.replace("Init START", "Init COMPLETE") for line in others] if completes else []
    found = diagnosis_of([verbs(), begun, others, OVER_IB, COMPLETE, ended, [f"step {n} loss 2.{n}" for n in range(4)]])
    assert found.verdict == verdict


LOST = f"{B}misc/socket.cc:50 NCCL WARN {CLOSED}\n{B}NCCL INFO init.cc:1358 -> 6\n"


@pytest.mark.parametrize(("warned", "top"), [
    ("transport.cc:60 NCCL WARN No transport found for rank 0[1000] -> rank 1[2000]", "run-failed"),
    ("argcheck.cc:30 NCCL WARN AllReduce : sendbuff 0x7f1 is not a valid pointer", "run-failed"),
    ("argcheck.cc:60 NCCL WARN Broadcast : invalid root 8 (root should be in the 0..8 range)", "run-failed"),
    ("socket.cc:70 NCCL WARN Net : error encountered when getting address info : Name or service not known",
     "bootstrap-unreachable"),
    ("socket.cc:70 NCCL WARN Call to bind failed: Address already in use", "bootstrap-unreachable"),
    ("init.cc:70 NCCL WARN AllReduce : communicator was revoked", "peer-died"),  # as is done once a rank is gone
    ("socket.cc:70 NCCL WARN socketProgress: Connection closed by remote peer n3<4>", "peer-died"),
])  # fmt: skip
def test_what_nccl_says_of_a_ranks_own_side_is_no_consequence_of_a_lost_peer(warned: str, top: str) -> None:
    failed = f"{A}{warned}\n{A}NCCL INFO init.cc:1358 -> 4\n"
    for text in (failed + LOST, LOST + failed):
        assert threads.diagnose(text).findings[0].rule == top


def test_a_rank_that_lost_its_peer_before_refuses_calls_because_of_it() -> None:
    text = LOST + f"{B}argcheck.cc:30 NCCL WARN AllReduce : sendbuff 0x7f1 is not a valid pointer\n"
    assert threads.diagnose(text).findings[0].rule == "peer-died"
