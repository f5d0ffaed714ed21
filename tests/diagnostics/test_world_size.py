"""How many ranks and nodes a job has, where a part of a log shows no start of a communicator."""

import pytest

from tests.diagnostics.threads import diagnose

TWO_HOSTS = """\
n1:21:21 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.1<0>
n2:31:31 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.2<0>
n1:21:21 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
n2:31:31 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0>
n1:21:40 [0] NCCL INFO Channel 00/02 :    0   1
n1:21:40 [0] NCCL INFO Channel 01/02 :    0   1
"""


@pytest.mark.parametrize(("text", "size", "nodes"), [
    (TWO_HOSTS, 2, 2),
    (TWO_HOSTS.replace("0   1\n", "0   1   2   3\n"), 4, None),  # two ranks of which no line is
    (TWO_HOSTS.replace("0   1\n", "0   2   3\n"), None, None),  # cut
    (TWO_HOSTS.replace("Channel 00/02 :", "Channel 00 :"), 2, 2),  # 2.4
    ("n1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n", None, None),
    ("n1:7:7 [0] NCCL INFO comm 0x1 rank 3 nranks 8 cudaDev 0 busId 35000 - Destroy COMPLETE\n", 8, None),
    ("n1:7:7 [0] NCCL INFO comm 0x1 rank 3 - Destroy COMPLETE\n", None, None),
])  # fmt: skip
def test_other_lines_of_nccl_tell_the_size_where_no_init_line_does(
    text: str, size: int | None, nodes: int | None
) -> None:
    diagnosis = diagnose(text)
    assert (diagnosis.world_size, diagnosis.nodes) == (size, nodes)


def test_init_lines_tell_the_size_before_all_others() -> None:
    start = (
        "n1:7:7 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 16 cudaDev 0 busId b0 commId 0x2 - Init START\n"
    )
    assert diagnose(start + TWO_HOSTS).world_size == 16
