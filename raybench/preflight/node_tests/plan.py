"""What a level asks of a host: which tests, how large, how long. The names of checks stand here, with their tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.documents.preflight import TESTS_DONE

CONCERN = "test"
_SECONDS = {2: 60.0, 3: 600.0}  # for the tests of a host, by level
SLACK_SECONDS = 20.0  # how much longer than their plan says tests may take before they are ended
_START_SECONDS = 60.0  # until a host's tests have begun: a login, and torch imported from a slow disk
SIZES = (
    "samples",
    "block_seconds",
    "cpu_widths",
    "gpu_widths",
    "memory_mib",
    "gpu_memory_mib",
    "transfer_mib",
    "message_mib",
    "gpu_message_mib",
    "disk_mib",
    "folder",
    "burn_seconds",
    "diag_level",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheck:
    """A check of what a test found. ``test`` is the host's test that gives the figures ``figure``."""

    name: str
    test: str
    title: str
    figure: str
    level: int = 2


CHECKS: tuple[NodeCheck, ...] = (
    NodeCheck(name="test-processor", test="processor", figure="processor", title="Speed of a processor by itself"),
    NodeCheck(name="test-gemm-exact", test="gemm", figure="gemm-exact", title="Matrix products whose result is known"),
    NodeCheck(
        name="test-gemm-repeat", test="gemm", figure="gemm-repeat", title="The same matrix product again and again"
    ),
    NodeCheck(name="test-gemm-speed", test="gemm", figure="gemm-speed", title="Speed of matrix products"),
    NodeCheck(
        name="test-memory-exact", test="memory", figure="memory-exact", title="Memory that holds what is written"
    ),
    NodeCheck(name="test-memory-speed", test="memory", figure="memory-speed", title="Bandwidth of memory, GPUs' too"),
    NodeCheck(
        name="test-transfer-exact", test="transfer", figure="transfer-exact", title="Bytes between host and GPUs"
    ),
    NodeCheck(
        name="test-transfer-speed", test="transfer", figure="transfer-speed", title="Copies between host and GPUs"
    ),
    NodeCheck(name="test-nic", test="nic", figure="nic-loopback", title="Each RDMA device with itself"),
    NodeCheck(name="test-peer-exact", test="peer", figure="peer-exact", title="Bytes between GPUs", level=3),
    NodeCheck(name="test-peer-speed", test="peer", figure="peer-speed", title="Copies between GPUs", level=3),
    NodeCheck(
        name="test-loopback-exact",
        test="loopback",
        figure="loopback-exact",
        title="Collectives inside the node, each element",
        level=3,
    ),
    NodeCheck(
        name="test-loopback-speed",
        test="loopback",
        figure="loopback-speed",
        title="Speed of collectives inside the node",
        level=3,
    ),
    NodeCheck(name="test-disk-exact", test="disk", figure="disk-exact", title="What a disk gives back", level=3),
    NodeCheck(name="test-disk-speed", test="disk", figure="disk-speed", title="Writing to a disk and reading", level=3),
    NodeCheck(name="test-dcgm", test="diag", figure="dcgm-diag", title="DCGM's own diagnostic", level=3),
    NodeCheck(
        name="test-burn-repeat", test="burn", figure="burn-repeat", title="Results that stay under full load", level=3
    ),
    NodeCheck(
        name="test-burn-speed", test="burn", figure="burn-speed", title="Speed that stays under full load", level=3
    ),
    NodeCheck(
        name="test-burn-state", test="burn", figure="burn-state", title="Clocks and heat under full load", level=3
    ),
)
RUN = TESTS_DONE
LOAD = "test-load"  # what else took the processors meanwhile
ALWAYS = {RUN: "Tests that came to their end", LOAD: "What else took the processors meanwhile"}
NAMES = (*ALWAYS, *(check.name for check in CHECKS))


def chosen_checks(level: int, only: Sequence[str], skip: Sequence[str]) -> tuple[NodeCheck, ...]:
    """The checks of a level that names of checks or concerns leave."""
    return tuple(
        one
        for one in CHECKS
        if level >= one.level and (not only or {one.name, CONCERN} & set(only)) and not {one.name, CONCERN} & set(skip)
    )


def plan_for(
    level: int,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    seconds: float = 0.0,
    sizes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The plan as the host takes it; no tests in it where nothing is wanted. 0 and empty leave the level's own.

    Raises ValueError for a level, time or size that cannot be.
    """
    if level not in {1, *_SECONDS}:
        raise ValueError(f"there is no level {level}: 1 looks, 2 tests each node for a minute, 3 for up to ten")
    unknown = sorted(set(sizes or {}) - set(SIZES))
    if unknown:
        raise ValueError(f"there is no size {unknown[0]} of node tests; there are {', '.join(SIZES)}")
    checks = chosen_checks(level, only, skip)
    return {
        "tests": list(dict.fromkeys(one.test for one in checks)),
        "seconds": seconds or _SECONDS.get(level, 0.0),
        **(sizes or {}),
    }


def host_limit_seconds(plan: Mapping[str, Any]) -> float:
    """How long a host may take for a plan, its login included."""
    return float(plan["seconds"]) + SLACK_SECONDS + _START_SECONDS
