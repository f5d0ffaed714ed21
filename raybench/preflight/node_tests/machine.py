"""Who shares a machine with whom, and what else took a node's processors while it was tested. Pure.

Nodes that share a kernel (containers, nodes of a lab) share its processors: how long a CPU takes there says as much of
the others as of the node. What is the node's own is its processes and its quota, which are counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from raybench.preflight.node_tests.answer import NodeTests
from raybench.preflight.verdict import Judgement, failed, passed, unknown, warned

_OUTSIDE = 0.1  # processors that nothing of the node took
_MANY, _SOME = 0.1, 0.05  # of all processors
_LIKE_THE_TESTS = 0.25  # of what the tests and others had together, where nothing was left idle
_FULL = 0.1  # less than this share of the processors was idle
_HELD_BACK, _HELD_BACK_WARN = 0.25, 0.05  # processors that a quota kept from the tests, over those that they had


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """How a node shares its machine: ``emulated`` with other nodes of the test, ``sees_others`` their processes, too.

    ``not_its_own`` says why slowness would not be its own.
    """

    emulated: bool = False
    sees_others: bool = False
    not_its_own: str = ""


def sharing_of(tests: Mapping[str, NodeTests]) -> dict[str, Sharing]:
    """How each host shares its machine with other hosts of the test."""
    machines = [one.machine for one in tests.values() if one.machine]
    spaces = [(one.machine, one.process_space) for one in tests.values()]
    found = {}
    for host, one in tests.items():
        emulated = machines.count(one.machine) > 1
        sees_others = emulated and spaces.count((one.machine, one.process_space)) > 1
        outside = one.load("outside") + (one.load("node") if sees_others else 0.0)
        told = f"what is outside the node took {outside:.1f} of {one.processors} processors meanwhile"
        found[host] = Sharing(
            emulated=emulated, sees_others=sees_others, not_its_own=told if emulated and outside >= _OUTSIDE else ""
        )
    return found


def load_judgement(one: NodeTests, sharing: Sharing) -> Judgement:
    """Whether the tests had the processors for themselves, as a job will need them."""
    if not any(figure.test == "load" for figure in one.figures):
        return unknown("what else took the processors was not counted: the tests did not come to their end")
    own, node, held_back = (one.load(case) for case in ("own", "node", "held_back"))
    largest = next(figure.detail for figure in one.figures if figure.test == "load")
    seen = f"other processes took {node:.2f} of {one.processors} processors, the tests {own:.2f}"
    if held_back >= _HELD_BACK_WARN * own:
        told = failed if held_back >= _HELD_BACK * own else warned
        return told(
            f"a quota of its cgroup kept {held_back:.2f} processors from the tests, which had {own:.2f}",
            "no quota, or none that is reached",
            "throttled time in cpu.stat of the cgroup",
            "lift the quota: cpu.max of the cgroup, CPUQuota= of the unit, or the limit of the container",
        )
    if sharing.sees_others:
        return unknown(f"{seen}; they may be those of other nodes of this machine")
    full = one.load("idle") < _FULL * one.processors and node >= _LIKE_THE_TESTS * (own + node)
    if full or node >= _MANY * one.processors:
        return _hogged(failed, seen, largest)
    return _hogged(warned, seen, largest) if node >= _SOME * one.processors else passed(seen, "an idle node")


def _hogged(judged: Callable[[str, str, str, str], Judgement], seen: str, largest: str) -> Judgement:
    return judged(
        f"{seen}: {largest}" if largest else seen,
        "an idle node",
        "processor time of all processes while the tests ran",
        "end these processes if they are nobody's, or wait for the job that they belong to",
    )
