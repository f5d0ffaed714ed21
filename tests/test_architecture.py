"""The rules of docs/architecture.md, read from the code: who may import whom, and that the tables are complete."""

import ast
import functools
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raybench.benchmarks.messages.operations import OPERATIONS
from raybench.benchmarks.registry import SUITES, WORKLOADS, records_of, workload_of
from raybench.cli import COMMANDS
from tests.test_packages import import_statements

ROOT = Path(__file__).parents[1]

# Modules of raybench from the bottom up. A module imports from its own group and from groups below it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("version",),
    ("raybench", "errors", "units", "whole_file", "finding_rules"),
    ("host_ranges", "unreachable", "installation"),
    ("sizes", "rounds", "stats", "weighing", "metadata", "secret_values", "traffic"),
    ("documents", "verdicts"),
    ("hardware", "performance_model"),
    ("stability", "more_launches", "expectations", "peers", "run_folder", "processes", "timeline"),
    ("benchmarks", "preflight", "nodes", "trackers"),
    ("config",),
    ("hosts",),
    ("execution",),
    ("studies", "launchers", "comparison"),
    ("services",),
    ("cli", "__main__"),
)
# Beside the layers: sees results, stability and what is below, and nothing above.
REPORTS_MAY_IMPORT = {
    "whole_file",
    *("raybench", "errors", "units", "stats", "documents", "verdicts", "stability", "reports"),
    *("host_ranges", "unreachable", "installation", "timeline"),
}
SEE_REPORTS = {"services", "cli"}
# The command line parses, calls a service and prints: what is decided, and what touches hosts or Ray, is below it.
CLI_MAY_IMPORT = {
    "version",
    *("cli", "services", "reports", "documents", "config", "processes"),
    *("raybench", "errors", "units", "whole_file", "host_ranges"),
}
CLI_MAY_IMPORT_OF_DIAGNOSTICS = {"output", "findings"}
API_MAY_IMPORT = {"documents", "config", "services", "reports"}  # raybench/__init__.py, when it is called

# Where each heavy or outward library may be imported.
CONFINED = {
    "torch": {"benchmarks"},
    "ray": {"execution"},
    "ansible_runner": {"hosts"},
    "paramiko": {"hosts"},
    "rich": {"reports", "cli"},
    "matplotlib": {"reports", "raybench"},
    "pandas": {"documents"},
    "jinja2": {"reports"},
    "click": {"cli"},
    "mlx": {"benchmarks"},
}


def modules(package: str) -> Iterator[tuple[Path, str]]:
    """Every source file of a package, with the part of raybench that it belongs to."""
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT / package).parts
        yield path, package if parts == ("__init__.py",) else parts[0].removesuffix(".py")


def nodes_of(path: Path, *, having: str = "") -> Iterator[ast.AST]:
    """The syntax tree of a file; of one without the word ``having`` nothing."""
    source = path.read_text(encoding="utf-8")
    return ast.walk(ast.parse(source)) if having in source else iter(())


@functools.cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Absolute names that a file imports anywhere, with the line. Imports for type checkers count too."""
    found: list[tuple[str, int]] = []
    for node, _ in import_statements(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        else:
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            found.append((node.module or "", node.lineno))
    return tuple(found)


# Packages that are handed documents: they read no mapping by a key written into the code, but for these mappings.
HANDED_DOCUMENTS = {
    *("reports", "services", "studies", "expectations", "peers", "stability", "finding_rules"),
    *("execution", "benchmarks", "comparison"),
}
NO_DOCUMENTS = {
    "benchmarks/memory/allocator.py": "a trace of PyTorch's profiler",
    "benchmarks/memory/options.py": "a table of its own, by kind of device",
    "benchmarks/node_tests/boot.py": "what the process was sent",
    "benchmarks/node_tests/children.py": "what the process was sent",
    "benchmarks/node_tests/dcgm_answer.py": "the answer of dcgmi",
    "benchmarks/node_tests/disk.py": "samples by case",
    "benchmarks/node_tests/loopback.py": "lines of its own ranks",
    "benchmarks/node_tests/loopback_rank.py": "what the rank was sent",
    "benchmarks/rank/flight_record.py": "PyTorch's flight record",
    "benchmarks/rank/recorded.py": "PyTorch's flight record",
    "benchmarks/standalone.py": "torch's store, and what it writes itself before there is a document",
    "benchmarks/training/clock.py": "CUDA events by name",
    "benchmarks/training/combine.py": "the phases of a rank's record, by name",
    "benchmarks/training/exposure/division.py": "a trace of PyTorch's profiler",
    "benchmarks/training/exposure/trace.py": "a trace of PyTorch's profiler",
    "benchmarks/training/models/transformer.py": "sizes of layers by name",
    "benchmarks/training/models/weight_files.py": "the header of a safetensors file",
    "benchmarks/training/options.py": "options as they were typed",
    "comparison/tools/nccl_tests.py": "groups of its patterns",
    "execution/node_actors/node_actor.py": "sys.modules",
    "execution/node_actors/warm_groups.py": "Ray's table of placement groups",
    "execution/ranks/rank_activity.py": "/proc/PID/io",
    "execution/ray_cluster/head_facts.py": "what the head's own process and Ray answer",
    "execution/ray_cluster/session.py": "nvidia-smi's answer",
    "expectations/expected.py": "rows of its CSV tables",
    "services/completing/place.py": "groups of an inventory",
    "services/estimating/counted_model.py": "the answer of its own process",
    "services/init.py": "groups of an inventory",
    "studies/network.py": "a table of its own, by preset",
}


def keyed_reads(path: Path) -> list[str]:
    """Reads of a mapping by a key that is written into the code: ``content["seconds"]``, ``content.get("seconds")``.

    Keys in capitals are no document's: environment variables, columns of Ray's tables.
    """
    found = []
    for node in nodes_of(path):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            owner, key = node.value, node.slice
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            owner, key = node.func.value, node.args[0]
        else:
            continue
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value[:1].islower():
            found.append(f"{path.name}:{node.lineno}: {ast.unparse(owner)}[{key.value!r}]")
    return found


def layer(part: str) -> int:
    return next((number for number, parts in enumerate(LAYERS) if part in parts), -1)


def part_of(name: str) -> str:
    """The part of raybench that an imported name belongs to."""
    pieces = name.split(".")
    return pieces[1] if len(pieces) > 1 else "raybench"


def broken_edges(path: Path, part: str) -> list[str]:
    wrong = []
    for name, line in imports(path):
        if not name.startswith("raybench"):
            continue
        target = part_of(name)
        allowed = (part == "raybench" and target in API_MAY_IMPORT) or (
            target in REPORTS_MAY_IMPORT
            if part == "reports"
            else (layer(target) <= layer(part) if target != "reports" else part in SEE_REPORTS)
        )
        if not allowed:
            wrong.append(f"{path.relative_to(ROOT)}:{line}: {part} imports {name}")
    return wrong


def test_a_module_imports_only_from_its_own_layer_and_below() -> None:
    found = list(modules("raybench"))
    assert len(found) > 500
    assert {part for _, part in found if part != "reports" and layer(part) < 0} == set(), "no place in LAYERS"
    assert [edge for path, part in found for edge in broken_edges(path, part)] == []


def test_the_layers_name_what_exists_and_each_part_once() -> None:
    listed = [part for parts in LAYERS for part in parts]
    there = {part for _, part in modules("raybench")} - {"reports"}
    assert sorted(listed) == sorted(there), "LAYERS and the package differ"
    assert there | {"reports"} >= REPORTS_MAY_IMPORT
    assert {part for parts in CONFINED.values() for part in parts} <= there | {"reports"}


def test_the_command_line_decides_nothing_past_the_services() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, part in modules("raybench")
        if part == "cli"
        for name, line in imports(path)
        if (name.startswith("raybench") and part_of(name) not in CLI_MAY_IMPORT)
        or (name.startswith("diagnostics") and part_of(name) not in CLI_MAY_IMPORT_OF_DIAGNOSTICS)
    ]
    assert found == []
    assert CLI_MAY_IMPORT.isdisjoint({"execution", "hosts", "studies", "benchmarks", "preflight"})


def test_services_are_called_without_a_command_line() -> None:
    """With click not to be had at all; each module is imported, and two that need nothing but this machine called."""
    names = [f"raybench.services.{path.stem}" for path in (ROOT / "raybench/services").glob("[a-z]*.py")]
    code = (
        "import importlib, sys\n"
        "sys.modules['click'] = None\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "from raybench.services.diagnose import rule_page\n"
        "from raybench.services.expected import SystemOptions, expected_bandwidth\n"
        "print(len(rule_page(None)) > 0, expected_bandwidth(SystemOptions(gpu='H100'), sizes='1G').exit_code)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.strip() == "True 0"


def test_an_import_against_the_direction_would_be_seen(tmp_path: Path) -> None:
    bad = ROOT / "raybench" / "benchmarks" / "not_there.py"
    source = tmp_path / "bad.py"
    source.write_text("from raybench.execution.run import Run\n")
    names = [part_of(name) for name, _ in imports(source)]
    assert names == ["execution"]
    assert layer(names[0]) > layer("benchmarks")
    assert not bad.exists()


@pytest.mark.parametrize("library", sorted(CONFINED))
def test_heavy_libraries_stay_in_their_packages(library: str) -> None:
    used = {
        part
        for path, part in modules("raybench")
        for name, _ in imports(path)
        if name == library or name.startswith(f"{library}.")
    }
    assert used <= CONFINED[library]


def test_diagnostics_knows_nothing_of_raybench() -> None:
    forbidden = {"raybench", "ray", "torch", "rich", "click", "numpy", "msgspec"}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, _ in modules("diagnostics")
        for name, line in imports(path)
        if name.split(".")[0] in forbidden
    ]
    assert found == []


def test_no_document_is_read_by_the_names_of_its_keys() -> None:
    """A misspelt key of a dictionary is an empty cell of a report; a misspelt attribute is an error of mypy."""
    found = {
        str(path.relative_to(ROOT / "raybench")): reads
        for path, part in modules("raybench")
        if part in HANDED_DOCUMENTS and (reads := keyed_reads(path))
    }
    assert {name: reads for name, reads in found.items() if name not in NO_DOCUMENTS} == {}
    assert NO_DOCUMENTS.keys() - found.keys() == set(), "exceptions that nothing needs any more"


def test_reads_by_key_are_seen_in_both_their_forms(tmp_path: Path) -> None:
    source = tmp_path / "rows.py"
    source.write_text(
        """a = point["seconds"]; b = one.get("rank", 0); c["known"] = os.environ.get("HOME"); d["x"][0]"""
    )
    assert [text.partition(" ")[2] for text in keyed_reads(source)] == ["point['seconds']", "one['rank']", "d['x']"]


def test_nothing_that_is_read_is_ever_evaluated() -> None:
    found = [
        f"{path}:{node.lineno}"
        for package in ("raybench", "diagnostics")
        for path, _ in modules(package)
        for call in ("eval", "exec")
        for node in nodes_of(path, having=call)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == call
    ]
    assert found == []


@pytest.mark.parametrize("kind", sorted(WORKLOADS))
def test_every_workload_of_the_table_exists_with_all_that_it_names(kind: str) -> None:
    workload = workload_of(kind)
    assert workload.kind == kind
    assert all(callable(importlib.import_module(module).run) for module in workload.benchmarks.values())
    assert workload.records is None or records_of(kind).record.__struct_config__.frozen


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_operation_of_the_table_exists(name: str) -> None:
    module = importlib.import_module(OPERATIONS[name].module)
    assert hasattr(module, "COLLECTIVE") or hasattr(module, "run")


def test_every_collective_is_in_the_table() -> None:
    files = {path.stem for path in (ROOT / "raybench/benchmarks/collectives").glob("*.py")} - {"__init__"}
    left = files - set(OPERATIONS)
    assert left == set(), "add its line to COLLECTIVES in raybench/benchmarks/messages/operations.py"
    known = {name for kind in WORKLOADS for name in workload_of(kind).benchmarks}
    assert {name for names in SUITES.values() for name in names} <= known


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_exists_is_documented_and_shows_examples(name: str) -> None:
    command = importlib.import_module(COMMANDS[name][0]).command
    assert command.help
    assert "xample" in (command.epilog or "") + command.help
    assert f"raybench {name}" in (ROOT / "docs/usage.md").read_text(encoding="utf-8")
    for parameter in command.params:
        assert getattr(parameter, "help", "argument") or parameter.param_type_name == "argument", parameter.name


@pytest.mark.parametrize(
    "module",
    [
        "raybench.cli",
        "raybench.cli.run",
        "raybench.config",
        "raybench.execution.node_actors.node_actor",
        "raybench",
        "raybench.documents.run.result",
    ],
)
def test_what_starts_fast_imports_nothing_heavy(module: str) -> None:
    heavy = "torch ray ansible ansible_runner numpy pandas matplotlib paramiko rich"
    code = f"import sys, {module}; print([name for name in {heavy.split()!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.strip() == "[]"


def test_no_process_of_ours_imports_from_the_folder_that_the_command_was_called_in() -> None:
    """``python -m`` begins its search there, and the folder may be anybody's; with -P it does not."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, _ in modules("raybench")
        for node in nodes_of(path, having="executable")
        if isinstance(node, ast.List)
        and [ast.unparse(word) for word in node.elts[:2]] in (["sys.executable", "'-m'"], ["sys.executable", "'-c'"])
    ]
    assert found == []
