"""Every function that turns bytes or text into something else, found in the source: none can be forgotten.

``python -m tests.security.reading_sites`` lists them, each with its target or why it needs none.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.command import REPOSITORY

FOLDERS = ("raybench", "diagnostics", "playbooks")
# Methods and functions that read a format, by the last part of their name.
_DECODERS = frozenset(
    {"decode", "decompress", "decompressobj", "fromstring", "literal_eval", "loads", "raw_decode", "read_string",
     "safe_load", "stream_reader", "unpack", "unpack_from", "Unpickler", "DictReader"}
)  # fmt: skip
# Decoders that a module has under a name of its own, and the classes that are decoders.
_DECODERS_BY_NAME = frozenset({"Unpickler", "decode_reply", "decode_request", "literal_eval"})
_WORDS = re.compile("|".join((*_DECODERS, *_DECODERS_BY_NAME, r"\.load\(", "def parse_")))
_LOADERS = frozenset(
    {"json", "pickle", "yaml", "torch", "numpy", "np", "marshal", "tomllib"}
)  # whose load() reads, too
# Where a function that takes a text reads what a kernel, a tool or another host wrote.
_OF_OTHERS = (
    "diagnostics/agent/sources/", "playbooks/module_utils/raybench_probe/filters.py", "raybench/hosts/host_facts.py",
    "raybench/launchers/", "raybench/preflight/login.py", "raybench/preflight/parsers/", "raybench/preflight/subnet/",
    "raybench/timeline/importing/",
)  # fmt: skip
_TEXTS = frozenset({"content", "data", "line", "output", "packed", "text"})

OURS = "what a process or an earlier step of this command wrote"
PACKAGED = "a file of the package"
ROOTS = "on the host: what root set up there, what is damaged fails the module of that host alone"
ANSIBLES = "what Ansible hands to a module, or prints of an inventory: it has checked the form"
USERS = "what the user typed, or a variable of their scheduler"
HEADS = "in a child, whose end is told: tests/security/test_hostile_head.py"
SHOWN = "cuts a text that is shown, and reads nothing in it"
KERNELS = "where the kernel alone answers; what it says of others goes to a function with a target"
KUBECTLS = "what kubectl prints of the cluster that the user named; a target would be better"
WITHOUT_TARGET: Mapping[str, str] = {
    "diagnostics/agent/sources/tcp_connections.py:_answers": KERNELS,
    "raybench/benchmarks/node_tests/loopback.py:_line": OURS,
    "raybench/execution/launched/linked_node.py:_start": OURS,
    "raybench/execution/launched/session.py:place_of": OURS,
    "raybench/hosts/local_probe.py:probe_here": OURS,
    "raybench/launchers/kubernetes/request.py:toleration": USERS,
    "raybench/launchers/kubernetes/signs.py:short": SHOWN,
    "raybench/launchers/ranks/keeper.py:main": OURS,
    "raybench/launchers/ranks/place.py:_number": USERS,
    "raybench/launchers/ranks/place.py:_on_this_node": USERS,
    "raybench/nodes/history.py:_host": OURS,
    "raybench/nodes/history.py:looks": OURS,
    "raybench/services/comparing/compare.py:parse_gate": USERS,
    "raybench/trackers/handle.py:_hear": OURS,
    "raybench/trackers/process.py:_read": OURS,
    "raybench/services/estimating/counted_model.py:counted_model": USERS,
    "raybench/services/launching/kubernetes.py:_items": KUBECTLS,
    "raybench/services/launching/kubernetes.py:wait": KUBECTLS,
    "diagnostics/inputs/forked.py:_serve": OURS,
    "diagnostics/inputs/forked.py:_take": OURS,
    "diagnostics/inputs/forked.py:_works": OURS,
    "diagnostics/inputs/forked.py:result": OURS,
    "diagnostics/scanning/sifting.py:before": OURS,
    "diagnostics/pages.py:_samples": PACKAGED,
    "raybench/performance_model/models/released.py:released_models": PACKAGED,
    "playbooks/library/raybench_fabric.py:_is_alive": OURS,
    "playbooks/library/raybench_fabric.py:_new_results": OURS,
    "playbooks/library/raybench_node_test.py:main": ANSIBLES,
    "playbooks/library/raybench_probe.py:main": ANSIBLES,
    "playbooks/module_utils/raybench_configure/journal.py:_load": ROOTS,
    "playbooks/module_utils/raybench_configure/mtu.py:_netplan_groups": ROOTS,
    "playbooks/module_utils/raybench_configure/mtu.py:mtu_range": ROOTS,
    "playbooks/module_utils/raybench_configure/rails.py:addresses": ROOTS,
    "playbooks/module_utils/raybench_configure/resources/pci.py:access_control_offset": ROOTS,
    "playbooks/module_utils/raybench_configure/resources/pci.py:read": ROOTS,
    "playbooks/module_utils/raybench_configure/resources/quality.py:parse_dcb": ROOTS,
    "playbooks/module_utils/raybench_configure/resources/quality.py:parse_mlnx_qos": ROOTS,
    "playbooks/module_utils/raybench_configure/resources/service.py:parse_apt": ROOTS,
    "playbooks/module_utils/raybench_configure/resources/service.py:parse_dnf": ROOTS,
    "playbooks/module_utils/raybench_node_test/child.py:_lines": OURS,
    "playbooks/module_utils/raybench_probe/apart.py:answer": OURS,
    "playbooks/module_utils/raybench_ray/node.py:_state": OURS,
    "playbooks/module_utils/raybench_ray/python.py:_ask": OURS,
    "playbooks/module_utils/raybench_ray/supervise.py:main": OURS,
    "raybench/benchmarks/memory/allocator.py:allocated_peak": OURS,
    "raybench/benchmarks/memory/trial.py:main": OURS,
    "raybench/benchmarks/memory/trial.py:measure_apart": OURS,
    "raybench/benchmarks/rank/flight_record.py:_dump": OURS,
    "raybench/benchmarks/standalone.py:_events_of": OURS,
    "raybench/benchmarks/training/exposure/overlap.py:traced": OURS,
    "raybench/execution/driver_channel.py:message_of": OURS,
    "raybench/execution/node_actors/node_actor.py:_listen": OURS,
    "raybench/execution/node_actors/node_actor.py:start": OURS,
    "raybench/execution/ranks/rank_activity.py:_record": OURS,
    "raybench/execution/ranks/rank_host.py:serve": OURS,
    "raybench/execution/ray_cluster/head_facts.py:_ask": HEADS,
    "raybench/execution/ray_cluster/head_facts.py:head_facts": HEADS,
    "raybench/hardware/tables.py:parse_table": PACKAGED,
    "raybench/hosts/collect_host.py:__post_init__": OURS,
    "raybench/hosts/configuration.py:tags_by_role": PACKAGED,
    "raybench/hosts/inventory.py:parse_inventory": ANSIBLES,
    "raybench/hosts/inventory_draft.py:_quoted": OURS,
    "raybench/installation.py:_packages_of_checkout": PACKAGED,
    "raybench/reports/builders/history.py:_options": OURS,
    "raybench/services/preflight_expectations.py:_texts": USERS,
    "raybench/launchers/slurm/node_task.py:_phase": OURS,
    "raybench/launchers/slurm/node_task.py:main": OURS,
    "raybench/processes/frames.py:_bounds": OURS,
}


def reading_sites(folders: Iterable[str] = FOLDERS, root: Path = REPOSITORY) -> dict[str, tuple[str, int]]:
    """``path:function`` of each, with its file and its first line."""
    found = {}
    for path in sorted(one for folder in folders for one in (root / folder).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        source = path.read_text(encoding="utf-8")
        if not name.startswith(_OF_OTHERS) and not _WORDS.search(source):
            continue
        for function in _functions(source):
            if _reads(function, name):
                first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
                found[f"{name}:{function.name}"] = str(path), first
    return found


def _functions(source: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))


def _reads(function: ast.FunctionDef, path: str) -> bool:
    if function.name.startswith("parse_") and function.name != "parse_args":
        return True
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(map(_decodes, calls)) or (path.startswith(_OF_OTHERS) and _takes_text(function))


def _decodes(call: ast.Call) -> bool:
    called = call.func
    if isinstance(called, ast.Name):
        return called.id in _DECODERS_BY_NAME
    if not isinstance(called, ast.Attribute):
        return False
    if called.attr == "load":
        return isinstance(called.value, ast.Name) and called.value.id in _LOADERS
    return called.attr in _DECODERS and not (called.attr == "decode" and _is_of_text(call))


def _is_of_text(call: ast.Call) -> bool:
    """Whether bytes become a text: the first argument, where there is one, is an encoding."""
    first = call.args[0] if call.args else None
    return first is None or isinstance(first, ast.Constant) or "encoding" in ast.unparse(first)


def _takes_text(function: ast.FunctionDef) -> bool:
    kinds = {"str", "bytes"}
    return any(
        one.arg in _TEXTS and one.annotation is not None and ast.unparse(one.annotation) in kinds
        for one in function.args.args
    )


def main() -> None:
    """Print them."""
    for site in reading_sites():
        sys.stdout.write(f"{site}: {WITHOUT_TARGET.get(site, 'has a target')}\n")


if __name__ == "__main__":
    main()
