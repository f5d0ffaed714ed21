"""Errors of system calls in every spelling that logs have, and the advice that follows from them."""

import pytest

from diagnostics.actions import ACTIONS
from diagnostics.judging.error_number import ErrorNumber, error_numbers, named_error
from diagnostics.judging.recommendations import recommend
from tests.diagnostics.threads import diagnose

SPELLINGS = (
    "failed with error {text}",
    "failed with {number} {text}, on dev mlx5_0:1",
    "failed with error {text} errno {number}",
    "failed with error {number}",
    "failed : errno {number}",
    "returned {number}({text}) errno 115(Operation now in progress)",
    "[Errno {number}] {text}",
    "(errno: {number} - {text})",
    "refused ({name})",
    "Couldn't open AV. RC: -{number}, ERROR: {text}",
    "error: {text} ({number})",
)
INFINIBAND_TOOLS = ("ibstat", "perfquery", "ibdiagnet", "iblinkinfo", "ibping", "sminfo", "ibqueryerrors")
ABSENT_TOOLS = {  # by setting, tools and modules that are for other hardware
    "amd": ("nvidia-smi", "nvidia_peermem", "nvidia-peermem", "nvidia-fabricmanager"),
    "efa": (
        "nvidia_peermem",
        "nvidia-peermem",
        "mlxlink",
        "mlnx_qos",
        "show_gids",
        "NCCL_IB_TIMEOUT",
        *INFINIBAND_TOOLS,
    ),
    "omnipath": ("nvidia_peermem", "nvidia-peermem", "mlxlink", "mlnx_qos", "show_gids", *INFINIBAND_TOOLS),
}
MODIFY = "n1:41:41 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with {}"
LIST = "n1:41:41 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/{} [RO]; OOB eth0:10.0.0.1<0>\n"


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_an_error_is_known_in_every_spelling(spelling: str) -> None:
    for error in error_numbers():
        said = spelling.format(number=error.number, name=error.name, text=error.text)
        assert named_error(said) == error, said


@pytest.mark.parametrize(
    "text",
    [
        "failed with error Success",
        "Call to ibv_open_device failed",
        "Got completion with opcode 12",
        "received 256 bytes instead of 4",
        "Connect to 10.0.0.19<43> failed",
        "returned 999",
    ],
)
def test_other_numbers_are_no_errors(text: str) -> None:
    assert named_error(text) is None


@pytest.mark.parametrize(
    ("said", "summary", "advice"),
    [
        ("error No such device", "19 ENODEV", "rdma link show"),
        ("19 No such device, on dev mlx5_0:1, curr state INIT", "19 ENODEV", "rdma link show"),
        ("error Network is unreachable", "101 ENETUNREACH", "ip route get"),
        ("error 101", "101 ENETUNREACH", "ip route get"),
        ("113 No route to host, on dev mlx5_0:1", "113 EHOSTUNREACH", "ip neigh"),
        ("error Connection timed out", "110 ETIMEDOUT", "ib_write_bw"),
        ("error Permission denied", "13 EACCES", "ls -l /dev/infiniband"),
    ],
)
def test_why_a_queue_pair_cannot_be_connected_is_said_in_words(said: str, summary: str, advice: str) -> None:
    finding = diagnose(LIST.format("RoCE") + MODIFY.format(said)).findings[0]
    assert finding.rule == "ib-connect-failed"
    assert summary in finding.summary
    assert any(advice in command for one in finding.recommendations for command in one.commands)


def test_on_infiniband_no_route_and_no_gid_row_is_advised() -> None:
    finding = diagnose(LIST.format("IB") + MODIFY.format("error Connection timed out")).findings[0]
    commands = " ".join(command for one in finding.recommendations for command in one.commands)
    assert "ibstat" in commands
    assert "ip route" not in commands
    assert "show_gids" not in commands


@pytest.mark.parametrize("action", ACTIONS)
def test_no_advice_names_a_tool_of_infiniband_on_roce_or_where_the_link_layer_is_unknown(action: str) -> None:
    for setting in (frozenset({"roce"}), frozenset({"roce", "container"}), frozenset[str]()):
        commands = [command for one in recommend([action], setting) for command in one.commands]
        assert not [tool for tool in INFINIBAND_TOOLS if any(tool in command for command in commands)]


@pytest.mark.parametrize("setting", ABSENT_TOOLS)
def test_no_advice_names_what_a_platform_has_not(setting: str) -> None:
    shown = frozenset({setting, "infiniband"} if setting == "omnipath" else {setting})
    for action in ACTIONS:
        commands = " ".join(command for one in recommend([action], shown) for command in one.commands)
        assert not [tool for tool in ABSENT_TOOLS[setting] if tool in commands], action


@pytest.mark.parametrize(
    ("said", "layer"),
    [
        ("error No route to host errno 113", "roce"),
        ("error 101", "roce"),
        ("19 No such device, on dev mlx5_0:1, curr state INIT", "roce"),
        ("22 Invalid argument, on dev mlx5_0:1, local GID index 0, local GID ::, remote GID ::", "roce"),
        ("110 Connection timed out, on dev mlx5_0:1, local GID index 3, local GID 2001:db8::1, remote GID ::", "roce"),
        ("110 Connection timed out, on dev mlx5_0:1, local GID index 0, local GID fec0::1, remote GID fec0::2", "ib"),
        ("error Connection timed out", "ib"),
        ("error Cannot allocate memory errno 12", "ib"),
    ],
)
def test_the_link_layer_is_told_by_the_error_of_a_connection(said: str, layer: str) -> None:
    assert diagnose(MODIFY.format(said)).network == layer


def test_slingshot_is_not_told_of_efa() -> None:
    log = (
        "n1:1:2 [0] NCCL INFO NET/OFI Selected Provider is {} (found 4 nics)\n"
        "n1:1:2 [0] NCCL INFO comm 0x5 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
        "n1:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0\n"
    )
    said = {provider: diagnose(log.format(provider)) for provider in ("cxi", "efa")}
    assert "Slingshot" in said["cxi"].findings[0].explanation
    assert "EFA" in said["efa"].findings[0].explanation


@pytest.mark.parametrize(
    ("line", "rule", "summary"),
    [
        ("Net : Connect to 10.9.0.1<4> failed : Connection refused", "bootstrap-unreachable", "111 ECONNREFUSED"),
        ("socketStartConnect: Connect to 10.9.0.1<4> failed : errno 111", "bootstrap-unreachable", "111 ECONNREFUSED"),
        ("Net : Connect to 10.9.0.1<4> failed : Connection timed out", "bootstrap-unreachable", "110 ETIMEDOUT"),
        ("Net : Connect to 10.9.0.1<4> failed : No route to host", "wrong-interface", "113 EHOSTUNREACH"),
        ("Net : Connect to 10.9.0.1<4> failed : errno 101", "wrong-interface", "101 ENETUNREACH"),
        ("Call to bind failed: Address already in use", "bootstrap-unreachable", "98 EADDRINUSE"),
        ("Net : Call to recv from 10.9.0.1<4> failed : Connection reset by peer", "peer-died", "104 ECONNRESET"),
        ("Net : Call to recv from 10.9.0.1<4> failed : Connection timed out", "peer-died", "110 ETIMEDOUT"),
        ("Call to ibv_reg_mr failed with error Bad address", "memory-registration-failed", "14 EFAULT"),
        ("Call to ibv_reg_dmabuf_mr failed with error 95", "memory-registration-failed", "95 EOPNOTSUPP"),
        ("Call to ibv_create_qp failed with error 12", "memlock-limit", "locked memory"),
        ("Call to socket failed : Too many open files", "file-limit", "24 EMFILE"),
        ("Call to socket failed : errno 24", "file-limit", "24 EMFILE"),
        (
            "Error: failed to extend /dev/shm/nccl-a to 96 bytes, error: No space left on device (28)",
            "shm-too-small",
            "",
        ),
    ],
)
def test_errors_of_other_calls_are_said_in_words(line: str, rule: str, summary: str) -> None:
    finding = diagnose(f"n1:41:41 [0] misc/socket.cc:50 NCCL WARN {line}").findings[0]
    assert finding.rule == rule
    assert summary in finding.summary


def test_an_error_reads_as_words() -> None:
    assert str(ErrorNumber(number=101, name="ENETUNREACH", text="Network is unreachable")) == (
        "101 ENETUNREACH, network is unreachable"
    )
