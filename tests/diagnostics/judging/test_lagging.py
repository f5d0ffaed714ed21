"""A communicator that some ranks begin, complete or connect, and others do not, leaves open whether the job works."""

import pytest

from tests.diagnostics.threads import diagnose

WORLD = "n{0}:1:1 [0] NCCL INFO ncclCommInitRank comm 0x5 rank {0} nranks 2 cudaDev 0 busId b000 commId 0xab - Init {1}"
GROUP = WORLD.replace("0x5", "0x6").replace("0xab", "0xcd")
SPLIT = (
    "n{0}:1:1 [0] NCCL INFO ncclCommSplit comm 0x7 rank {0} nranks 2 cudaDev 0 nvmlDev 0 busId b000 parent 0x5 "
    "splitCount 1 color 12 key 0- Init {1}"
)
HEAD = "n{0}:1:1 [0] NCCL INFO "
RINGS = HEAD + "Connected all rings, use ring PXN 0 GDR 1"
DESTROYED = HEAD + "comm 0x5 rank {0} nranks 2 cudaDev 0 busId b000 - Destroy COMPLETE"
STEPS = [f"step {number} loss 2.{9 - number} tokens/s 123{number}" for number in range(3)]
BOTH = (0, 1)


def _of(line: str, ranks: tuple[int, ...] = BOTH, *rest: str) -> list[str]:
    return [line.format(rank, *rest) for rank in ranks]


BEGUN = [
    *_of(HEAD + "NCCL version 2.27.5+cuda12.8"),
    *_of(HEAD + "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"),
    *_of(HEAD + "Using network IB"),
    *_of(WORLD, BOTH, "START"),
    *_of(WORLD, BOTH, "COMPLETE"),
]


@pytest.mark.parametrize(("behind", "verdict"), [
    (_of(RINGS), "ok"),
    (_of(RINGS, (0,)), "unknown"),
    (_of(RINGS, (1,)), "unknown"),
    ([*_of(RINGS, (0,)), *STEPS], "ok"),  # lines of NCCL may be lost: steps show that all are connected
    ([*_of(RINGS, (0,)), *_of(DESTROYED)], "ok"),
    ([*_of(RINGS), *_of(GROUP, BOTH, "START"), *_of(GROUP, BOTH, "COMPLETE"), *_of(RINGS, (0,))], "unknown"),
    ([*_of(RINGS), *_of(GROUP, BOTH, "START"), *_of(GROUP, BOTH, "COMPLETE"), *_of(RINGS)], "ok"),
    ([*_of(RINGS), *_of(GROUP, (0,), "START")], "unknown"),
    ([*_of(RINGS), *STEPS, *_of(GROUP, (0,), "START")], "unknown"),
    ([*_of(RINGS), *_of(GROUP, (0,), "START"), *STEPS], "ok"),
    ([*_of(RINGS), *_of(GROUP, BOTH, "START"), *_of(GROUP, (0,), "COMPLETE")], "unknown"),
    ([*_of(RINGS), *STEPS, *_of(SPLIT, (1,), "START")], "unknown"),
    ([*_of(RINGS), *_of(GROUP, (0,), "START"), *_of(RINGS, (0,)), *_of(RINGS, (1,))], "ok"),  # a line was lost
    ([*_of(RINGS), *_of(GROUP, BOTH, "START"), *_of(DESTROYED.replace("0x5", "0x9"))], "ok"),  # both lines were lost
])  # fmt: skip
def test_what_one_rank_has_not_done_of_what_another_did_is_open(behind: list[str], verdict: str) -> None:
    assert diagnose("\n".join([*BEGUN, *behind]) + "\n").verdict == verdict


def test_before_2_22_ranks_that_are_connected_are_not_complete_yet() -> None:
    begun = [line.replace("2.27.5", "2.21.5") for line in BEGUN]
    group = [*_of(GROUP, BOTH, "START"), *_of(RINGS)]
    assert diagnose("\n".join([*begun, *group]) + "\n").verdict == "unknown"
    assert diagnose("\n".join([*begun, *group, *_of(GROUP, BOTH, "COMPLETE")]) + "\n").verdict == "ok"
