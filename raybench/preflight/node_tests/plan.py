"""What a level asks of a host: which tests, how large, how long. The names of checks stand here, with their tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.documents.preflight import TESTS_DONE

CONCERN = "test"
_SECONDS = 60.0  # for the tests of a host
SLACK_SECONDS = 20.0  # how much longer than their plan says tests may take before they are ended
_START_SECONDS = 60.0  # until a host's tests have begun: a login, and torch imported from a slow disk
_SIZES = ("samples", "block_seconds", "cpu_widths", "gpu_widths")


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
    if level not in {1, 2}:
        raise ValueError(f"there is no level {level}: 1 looks, 2 tests each node for a minute")
    unknown = sorted(set(sizes or {}) - set(_SIZES))
    if unknown:
        raise ValueError(f"there is no size {unknown[0]} of node tests; there are {', '.join(_SIZES)}")
    checks = chosen_checks(level, only, skip)
    return {
        "tests": list(dict.fromkeys(one.test for one in checks)),
        "seconds": seconds or _SECONDS,
        **(sizes or {}),
    }


def host_limit_seconds(plan: Mapping[str, Any]) -> float:
    """How long a host may take for a plan, its login included."""
    return float(plan["seconds"]) + SLACK_SECONDS + _START_SECONDS
