"""How the source is divided: no import cycles, no folder beyond 25 files, and modules that are named by text exist."""

import ast
import functools
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest

from raybench.execution.ranks.rank_host import PRELOAD

ROOT = Path(__file__).parents[1]
TREES = (
    "raybench",
    "diagnostics",
    *(f"playbooks/module_utils/raybench_{name}" for name in ("configure", "host", "probe", "ray")),
)
MOST_FILES = 25
# Only when called: a spec's options, read from another process, get the type that the table of workloads names; what a
# notebook shows of a document, and of a run, is asked of the Python API.
LAZY_UPWARDS = {
    ("raybench.benchmarks.spec", "raybench.benchmarks.registry"),
    ("raybench.documents.plain", "raybench"),
    ("diagnostics.findings", "diagnostics.output.html"),
    ("raybench.services.one_run", "raybench"),
}
Graph = Mapping[str, set[str]]
When = Literal["imported", "called", "type checking"]
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")


def sources(tree: Path) -> dict[str, Path]:
    """Modules of a tree by their dotted names."""
    named = {path.relative_to(tree.parent).with_suffix("").parts: path for path in sorted(tree.rglob("*.py"))}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for parts, path in named.items()}


@functools.cache
def import_statements(path: Path) -> tuple[tuple[ast.Import | ast.ImportFrom, When], ...]:
    """Those of a file, each with when it is run: parsed once for all tests that ask."""
    return tuple(statements_in(ast.parse(path.read_text(encoding="utf-8"))))


def statements_in(node: ast.AST, when: When = "imported") -> Iterator[tuple[ast.Import | ast.ImportFrom, When]]:
    """Imports below a module or a statement: run with the module, when a function is called, or for type checkers."""
    for child in (one for name in _BODIES for one in getattr(node, name, ())):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, when
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from statements_in(child, "type checking")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and when == "imported":
            yield from statements_in(child, "called")
        else:
            yield from statements_in(child, when)


def targets(statement: ast.Import | ast.ImportFrom, package: str, modules: Mapping[str, Path]) -> set[str]:
    """The modules of the tree that a statement imports."""
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    else:
        outer = package.split(".")[: len(package.split(".")) - statement.level + 1] if statement.level else []
        base = ".".join([*outer, *([statement.module] if statement.module else [])])
        names = [name if (name := f"{base}.{alias.name}") in modules else base for alias in statement.names]
    return {name for name in names if name in modules}


def run_when(*, lazy: bool) -> set[When]:
    """Imports that are run: with the module, or (``lazy``) also when a function is called. None for type checkers."""
    return {"imported", "called"} if lazy else {"imported"}


@functools.cache
def graph(tree: Path, *, lazy: bool) -> Graph:
    modules = sources(tree)
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        statements = (one for one, when in import_statements(path) if when in run_when(lazy=lazy))
        found[name] = set().union(*(targets(one, package, modules) for one in statements)) - {name}
    return found


def in_cycles(edges: Graph) -> list[str]:
    """Modules that import themselves through others: whatever is left once all without imports are taken away."""
    left = {name: set(imported) for name, imported in edges.items()}
    for forwards in (True, False):  # what imports nothing of the rest, then what nothing of the rest imports
        while True:
            imported = set().union(*left.values()) if left else set()
            free = {name for name in left if (not left[name] if forwards else name not in imported)}
            if not free:
                break
            left = {name: names - free for name, names in left.items() if name not in free}
    return sorted(left)


@pytest.mark.parametrize("lazy", [False, True], ids=["when imported", "when called"])
@pytest.mark.parametrize("tree", TREES)
def test_no_module_imports_itself_through_others(tree: str, *, lazy: bool) -> None:
    edges = {name: set(imported) for name, imported in graph(ROOT / tree, lazy=lazy).items()}
    for lower, upper in LAZY_UPWARDS if lazy else ():
        if lower.split(".")[0] == tree:
            edges[lower].remove(upper)
    assert in_cycles(edges) == []


def test_a_cycle_would_be_seen() -> None:
    assert in_cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}) == ["b", "c"]
    assert in_cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    deep = "try:\n    import a\nexcept E:\n    import b\nelse:\n    import c\nfinally:\n    import d\n"
    deep += "match x:\n    case 1:\n        import e\nclass C:\n    with x:\n        import f\n"
    assert [when for _, when in statements_in(ast.parse(deep))] == ["imported"] * 6
    both = "import a\ndef late():\n    import b\nif TYPE_CHECKING:\n    import c\n"
    seen = [when for _, when in statements_in(ast.parse(both))]
    assert [sum(when in run_when(lazy=lazy) for when in seen) for lazy in (False, True)] == [1, 2]


@pytest.mark.parametrize("tree", ["raybench", "diagnostics", "playbooks", "tests"])
def test_no_folder_is_a_heap_of_files(tree: str) -> None:
    folders = {path.parent for path in (ROOT / tree).rglob("*.py")}
    counts = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: count for name, count in counts.items() if count > MOST_FILES} == {}


@pytest.mark.parametrize("module", PRELOAD)
def test_what_a_rank_host_imports_before_it_forks_exists(module: str) -> None:
    assert importlib.util.find_spec(module) is not None
