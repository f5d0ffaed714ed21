"""How many ranks and nodes a job has, where a part of a log shows no start of a communicator."""

import tracemalloc

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
CROSSING = "gpu-a:7:7 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0\n"
TESTS = """\
#  Rank  0 Group  0 Pid  25604 on      gpu-a device  0 [0x1a] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  24447 on      gpu-b device  0 [0x1a] NVIDIA H100 80GB HBM3
"""


@pytest.mark.parametrize(("text", "size", "nodes"), [
    (TWO_HOSTS, 2, 2),
    (TWO_HOSTS.replace("0   1\n", "0   1   2   3\n"), 4, None),  # two ranks of which no line is
    (TWO_HOSTS.replace("0   1\n", "0   2   3\n"), None, None),  # cut
    (TWO_HOSTS.replace("Channel 00/02 :", "Channel 00 :"), 2, 2),  # 2.4
    ("n1:7:7 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n", None, None),
    ("n1:7:7 [0] NCCL INFO comm 0x1 rank 3 nranks 8 cudaDev 0 busId 35000 - Destroy COMPLETE\n", 8, None),
    ("n1:7:7 [0] NCCL INFO comm 0x1 rank 3 - Destroy COMPLETE\n", None, None),
    ("n1:7:7 [0] NCCL INFO Channel 00/0 : 16[17] -> 18[21] via P2P/IPC comm 0x5609 nRanks 32\n", 32, None),  # RCCL
    ("n1:7:7 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 16 total 3.08 (kernels 0.36)\n", 16, None),
    ("n1:7:7 [0] NCCL INFO Init timings: rank 3 nranks 8 total 1.20 (kernels 0.36, bootstrap 0.09)\n", 8, None),
    ("n1:7:7 [0] NCCL INFO Bootstrap timings total 0.09 (create 0.00, send 0.00, recv 0.04, ring 0.04)\n", None, None),
    (TESTS + "#\n", 2, 2),
    (2 * (TESTS + "#\n"), 2, 2),  # two programs, one after the other
    (TESTS + "#\n" + TESTS.replace("gpu-b", "gpu-c") + "#\n", None, None),
    (TESTS + "#\n" + TESTS.splitlines()[0] + "\n", None, None),  # the second is cut
    (TESTS.splitlines()[1] + "\n#\n", None, None),  # begins within it
    (3 * (TESTS.splitlines()[0] + "\n"), None, None),  # each alone
    (TESTS.replace("# ", "") + "NCCL version 2.4.6+cuda10.0\n", 2, 2),  # as a page shows it that takes "#" for a title
    (TESTS.replace("gpu-b", "gpu-a") + "#\n", 2, 1),
    (TESTS.replace("gpu-b", "gpu-a") + CROSSING, 2, None),  # two nodes of one name
    (TESTS.rstrip("\n"), None, None),  # cut: more ranks may follow
    (TESTS.replace("Rank  1", "Rank  2") + "#\n", None, None),
    (TESTS.replace("Rank  1", "Rank  0") + "#\n", None, None),  # two programs
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


RING = """\
n1:1:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
n1:2:9 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0
n2:1:9 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0
n2:1:9 [0] NCCL INFO Channel 00/0 : 2[0] -> 3[1] via P2P/IPC
n2:2:9 [1] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [send] via NET/IB/0
"""
STARTED = "n1:1:9 [0] NCCL INFO comm 0x1 rank 0 nranks {} cudaDev 0 busId b0 - Init COMPLETE\n"


@pytest.mark.parametrize(("text", "nodes"), [
    (RING, 2),  # the end of the ring is in its beginning: there are no more ranks
    (RING.replace("n2:2:9 [1] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [send] via NET/IB/0\n", ""), None),
    (RING + "n2:2:9 [1] NCCL INFO Channel 01/0 : 3[1] -> 4[0] [send] via NET/IB/0\n", None),  # two ways from one rank
    (RING + STARTED.format(4), 2),
    (RING + STARTED.format(8), None),  # four ranks of which no line is
    (RING + STARTED.format(4) + "n3:1:9 [0] NCCL INFO Using network IB\n", None),  # and its channels may be a group's
    (RING.replace("n2:", "n1:") + STARTED.format(4), None),  # machines of one name, or containers
    (RING.replace("[send] ", "").replace("[receive] ", "") + STARTED.format(4), None),  # 2.3: either end
])  # fmt: skip
def test_channels_tell_the_nodes_where_not_every_start_is_in_the_log(text: str, nodes: int | None) -> None:
    assert diagnose(text).nodes == nodes


@pytest.mark.parametrize(("line", "size"), [
    ("n1:7:7 [0] NCCL INFO comm 0x1 rank 3 nranks 8 cudaDev 3 nvmlDev 7", 8),  # 2.4
    ("n1:7:7 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlD", 2),  # cut
    ("n1:7:7 [0] NCCL INFO comm 0x1 rank 6 nranks 8 cudaDev 2 busId b000 - Abort COMPLETE", 8),
    ("n1:7:7 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 1", None),  # of 16, say
    ("step 3: rank 3 nranks 8 cudaDev 0 of the configuration", None),
])  # fmt: skip
def test_a_line_that_is_cut_behind_the_size_tells_it(line: str, size: int | None) -> None:
    assert diagnose(line).world_size == size


def test_a_world_of_billions_that_a_damaged_line_names_takes_no_memory() -> None:
    start = "comm 0x55 rank 0 nranks 50000000 cudaDev 0 nvmlDev 0 busId 1000 commId 0x6fd2"
    tracemalloc.start()
    for text in (f"n1:7:7 [0] NCCL INFO ncclCommInitRank {start} - Init COMPLETE\n", TWO_HOSTS):
        diagnose(text + CROSSING)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**28  # a set of so many numbers takes 4 GB
