"""The tests of a host, one after the other, each by itself: one that breaks is told, and the others go on."""

from __future__ import annotations

import importlib
import os
import time
from typing import Callable, NamedTuple

from raybench.benchmarks.node_tests.meanwhile import Load, Meanwhile
from raybench.benchmarks.node_tests.plan import Figure, Plan, say, say_begun, say_facts

_HERE = "raybench.benchmarks.node_tests"


class NodeTest(NamedTuple):
    """A test: the module with its ``run(plan)``, and whether it needs torch."""

    name: str
    needs_torch: bool

    @property
    def run(self) -> Callable[[Plan], None]:
        """What does it."""
        function: Callable[[Plan], None] = importlib.import_module(f"{_HERE}.{self.name}").run
        return function


TESTS = (
    NodeTest("processor", needs_torch=True),
    NodeTest("gemm", needs_torch=True),
    NodeTest("memory", needs_torch=True),
    NodeTest("transfer", needs_torch=True),
    NodeTest("nic", needs_torch=False),
    NodeTest("peer", needs_torch=True),
    NodeTest("loopback", needs_torch=True),
    NodeTest("disk", needs_torch=False),
    NodeTest("diag", needs_torch=False),
    NodeTest("burn", needs_torch=True),
)


def conduct(plan: Plan) -> None:
    """Do what is wanted, within the plan's time, and say the figures as they come."""
    ends = time.monotonic() + plan.seconds
    wanted = [test for test in TESTS if test.name in plan.tests]
    why_no_torch = _torch_problem() if any(test.needs_torch for test in wanted) else ""
    say_facts(pid_namespace=_pid_namespace(), processors=os.cpu_count() or 1)
    meanwhile = Meanwhile()
    for test in wanted:
        if test.needs_torch and why_no_torch:
            say(Figure(test.name, "host", status="missing", reason=why_no_torch))
        elif time.monotonic() >= ends:
            say(Figure(test.name, "host", status="missing", reason=f"no time was left of {plan.seconds:g} s"))
        else:
            _do(test, plan._replace(seconds=ends - time.monotonic()))
        meanwhile.look()
    if wanted:
        _say_load(meanwhile.load())


def _say_load(load: Load) -> None:
    values = {name: value for name, value in load._asdict().items() if name != "largest"}
    for case, value in values.items():
        say(Figure("load", "cpu", case, unit="processors", samples=(round(value, 4),), detail=load.largest))


def _do(test: NodeTest, plan: Plan) -> None:
    say_begun(test.name)
    try:
        test.run(plan)
    except Exception as error:  # noqa: BLE001 - the one place: a test that broke is told, and the others go on
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        say(Figure(test.name, "host", status="broken", reason=reason))


def _torch_problem() -> str:
    """Why torch cannot be used here, and otherwise nothing, once it was said which one it is."""
    try:
        import torch

        from raybench.benchmarks.node_tests.devices import devices

        found = devices()
    except ImportError as error:
        return f"torch cannot be imported: {' '.join(str(error).split())[:200]}"
    except (RuntimeError, OSError) as error:
        return f"torch does not start: {' '.join(str(error).split())[:200]}"
    say_facts(torch=str(torch.__version__), devices=[[device.name, device.model] for device in found])
    return ""


def _pid_namespace() -> str:
    """The same for nodes that see each other's processes."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
