"""``python -m tests.measurements.nodes.faults`` (root): do active tests find faulty nodes, and only those?

Six nodes of the lab, reached by real ssh as hosts of an inventory. In rounds with faults one node has a process that
hogs a processor, one a CPU quota of its cgroup, and one whose matrix products have a flipped bit; in clean rounds none
has any. A round is right where each fault is named at its node by the check that it is about, and nothing else fails
or warns anywhere. Nodes of the lab share this machine's processors and are tested one after the other: what hosts of
their own do side by side takes here as many times as long as there are nodes.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.lab.cluster import Lab
from tests.lab.node import Node, kill_session
from tests.lab.requirement import lab_available
from tests.measurements.process import end_on_sigterm
from tests.measurements.table import print_table, write_json
from tests.playbooks.preflight_lab import lab_inventory, write_inventory

_NODES = 6
_HOGGED, _THROTTLED, _FLIPPED = 1, 2, 4  # of the lab's nodes, from 0
_CGROUPS = Path("/sys/fs/cgroup/cpu")
_PERIOD_US, _QUOTA_US = 100_000, 30_000
SMALL: Mapping[str, Any] = {
    "samples": 3,
    "block_seconds": 0.03,
    "cpu_widths": [128, 256],
    "memory_mib": 16,
    "message_mib": 1,
    "disk_mib": 4,
    "burn_seconds": 3,
}
# A device whose products lose a bit now and then: what torch.mm returns, changed in one element half of the time.
_FLIPPING = """
import importlib.util, os, random, sys
class Flipping:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            multiply, chance = module.mm, random.Random(os.getpid())
            def flipped(*operands, **options):
                result = multiply(*operands, **options)
                if chance.random() < 0.5 and result.dtype == module.float32:
                    result.view(module.int32).view(-1)[4711] ^= 1 << 20
                return result
            module.mm = flipped
        spec.loader.exec_module = exec_module
        return spec
sys.meta_path.insert(0, Flipping())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round said: the hosts' checks that failed, warned or broke, and those that left something open."""

    wrong: Mapping[str, Sequence[str]]
    unknown: Mapping[str, Sequence[str]]
    exit_code: int
    seconds: float
    missed: str


def main() -> int:
    """Rounds, printed and written. Returns 1 where one was not right, 2 where there is no lab."""
    end_on_sigterm()
    options = _options()
    reason = lab_available()
    if reason is not None:
        print(f"node_test_faults: {reason}", file=sys.stderr)
        return 2
    rounds: dict[str, list[Round]] = {"with faults": [], "clean": []}
    with Lab(nodes=_NODES) as lab:
        for kind, count in (("with faults", options.faulty), ("clean", options.clean)):
            for number in range(count):
                found = faulty_round(lab, options.level) if kind == "with faults" else clean_round(lab, options.level)
                rounds[kind].append(found)
                said = found.missed or "right"
                print(
                    f"{kind} {number + 1}/{count}: {said}, {found.seconds:.0f} s; open: {dict(found.unknown)}",
                    flush=True,
                )
    rows = [
        [kind, str(len(found)), str(sum(not one.missed for one in found)), _seconds(found)]
        for kind, found in rounds.items()
    ]
    print_table(
        f"node tests of {_NODES} hosts at level {options.level}", ["rounds", "done", "right", "s a round"], rows
    )
    write_json(
        options.output, "node_test_faults", {kind: [vars_of(one) for one in found] for kind, found in rounds.items()}
    )
    return int(any(one.missed for found in rounds.values() for one in found))


def vars_of(one: Round) -> dict[str, Any]:
    """A round, to be written."""
    return {name: getattr(one, name) for name in Round.__dataclass_fields__}


def _seconds(found: Sequence[Round]) -> str:
    return f"{sum(one.seconds for one in found) / len(found):.0f}" if found else "-"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.measurements.nodes.faults", description=__doc__)
    parser.add_argument("--faulty", type=int, default=3, help="rounds with three faulty nodes")
    parser.add_argument("--clean", type=int, default=20, help="rounds without a fault")
    parser.add_argument("--level", type=int, default=2, choices=(2, 3))
    parser.add_argument("--output", type=Path, help="write the rounds as JSON")
    return parser.parse_args()


def clean_round(lab: Lab, level: int) -> Round:
    """All nodes as they are: nothing may fail or warn."""
    found = _tested(lab, level, {})
    missed = "; ".join(f"{host}: {', '.join(checks)}" for host, checks in found.wrong.items())
    return _with_missed(found, missed or _not_done(found, 0))


def faulty_round(lab: Lab, level: int) -> Round:
    """A hogged, a throttled and a flipping node among the others."""
    nodes = lab.nodes
    python = _flipping_python(nodes[_FLIPPED])
    with _hog(nodes[_HOGGED]), _quota(nodes[_THROTTLED]):
        found = _tested(lab, level, {nodes[_FLIPPED].hostname: {"preflight_python": python}})
    expected = {
        nodes[_HOGGED].hostname: {"test-load"},
        nodes[_THROTTLED].hostname: {"test-load"},
        nodes[_FLIPPED].hostname: {"test-gemm-exact", "test-gemm-repeat"},
    }
    missed = [
        f"{host}: {', '.join(found.wrong.get(host, ())) or 'nothing'} instead of {', '.join(sorted(checks))}"
        for host, checks in expected.items()
        if not checks <= set(found.wrong.get(host, ()))
    ]
    missed += [f"{host}: {', '.join(checks)}" for host, checks in found.wrong.items() if host not in expected]
    return _with_missed(found, "; ".join(missed) or _not_done(found, 1))


def _with_missed(found: Round, missed: str) -> Round:
    return Round(
        wrong=found.wrong, unknown=found.unknown, exit_code=found.exit_code, seconds=found.seconds, missed=missed
    )


def _not_done(found: Round, exit_code: int) -> str:
    return "" if found.exit_code == exit_code else f"it ended with {found.exit_code}"


def _tested(lab: Lab, level: int, settings: Mapping[str, dict[str, object]]) -> Round:
    inventory = lab_inventory(lab, **settings)
    variables: Any = inventory["all"]
    variables["vars"]["preflight_test_sizes"] = dict(SMALL)
    hosts = write_inventory(lab.folder.path / "hosts.yml", inventory)
    command: list[str | Path] = ["python", "-m", "raybench", "preflight", "-i", hosts, "--json", "--only", "test"]
    command += ["--level", str(level), "--output-dir", lab.folder.shared]
    begun = time.monotonic()
    done = lab.control.run(command, folder=REPOSITORY, timeout=900)
    elapsed = time.monotonic() - begun
    try:
        report = json.loads(done.stdout)
    except ValueError as error:
        raise RuntimeError(f"raybench preflight ended with {done.returncode}: {done.stderr[-500:]}") from error
    left = [one.command for node in lab.nodes for one in node.leftover_processes() if "node_tests" in one.command]
    checks = {host["host"]: host["checks"] for host in report["hosts"]}
    return Round(
        wrong=_by_verdict(checks, {"fail", "warn", "error"}),
        unknown=_by_verdict(checks, {"unknown"}),
        exit_code=done.returncode,
        seconds=elapsed,
        missed=f"left running: {left}" if left else "",
    )


def _by_verdict(checks: Mapping[str, Sequence[Mapping[str, str]]], verdicts: set[str]) -> dict[str, list[str]]:
    found = {
        host: [one["check"] for one in own if one["verdict"] in verdicts and one["check"].startswith("test-")]
        for host, own in checks.items()
    }
    return {host: names for host, names in found.items() if names}


@contextlib.contextmanager
def _hog(node: Node) -> Iterator[None]:
    """A process that takes all it gets."""
    process = node.popen([sys.executable, "-I", "-S", "-c", "while True: pass"])
    try:
        yield
    finally:
        kill_session(process)
        process.wait(10)


@contextlib.contextmanager
def _quota(node: Node) -> Iterator[None]:
    """A cgroup for all that the node runs, which gets a part of one processor."""
    group = _CGROUPS / f"raybench-lab-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(_QUOTA_US))
        for process in node.processes():
            (group / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (_CGROUPS / "cgroup.procs").write_text(pid)
        group.rmdir()


def _flipping_python(node: Node) -> str:
    """An interpreter of the node in which torch.mm flips a bit now and then."""
    for path, text in (
        ("/root/flipping/sitecustomize.py", _FLIPPING),
        ("/root/python-flipping", f'#!/bin/sh\nPYTHONPATH=/root/flipping exec {sys.executable} "$@"\n'),
    ):
        command = f"mkdir -p $(dirname {path}) && cat > {path} && chmod 755 {path}"
        node.run(["sh", "-c", command], text_in=text, check=True)
    return "/root/python-flipping"


if __name__ == "__main__":
    sys.exit(main())
