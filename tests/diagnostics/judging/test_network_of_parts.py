"""Which network a job took, where a part of a log names no choice."""

import pytest

from tests.diagnostics.threads import diagnose

IBEXT = "n1:4:5 [2] NCCL INFO P2P plugin IBext_v8\n"
NO_DEVICE = "n1:4:5 [2] NCCL INFO NET/IB : No device found.\n"
SOCKETS = "n1:4:5 [2] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>\n"
ROCE = "n1:4:5 [2] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.4<0>\n"


@pytest.mark.parametrize(("text", "network"), [
    (IBEXT, "ib"),
    (IBEXT + ROCE, "roce"),
    (IBEXT + NO_DEVICE, "unknown"),
    (IBEXT + NO_DEVICE + SOCKETS, "socket"),
    (IBEXT.replace("IBext_v8", "UCX"), "plugin:UCX"),
    (IBEXT.replace("P2P plugin IBext_v8", "NET/Plugin: Loaded net plugin NCCL RDMA Plugin (v5)"), "unknown"),
])  # fmt: skip
def test_a_plugin_that_started_is_the_network_unless_another_line_says_otherwise(text: str, network: str) -> None:
    assert diagnose(text).network == network
