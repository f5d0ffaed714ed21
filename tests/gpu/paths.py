"""Every path that only a GPU reaches: marked ``# gpu: STEP``, and whether a record of a GPU has that step.

A marker stands on the first line of a statement, a function or a class and covers all of it; STEP is the step of the
proof that runs it (several with commas). ``python -m tests.gpu.paths`` lists them with their lines; ``--write``
writes docs/gpu.md, which names functions instead, so that it changes only where such a path does.
"""

import argparse
import ast
import functools
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.record import Record, proved_by, records_in

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs/gpu.md"
SOURCES = ("raybench", "diagnostics/agent/sources/gpus.py")
_MARK = re.compile(r"# gpu: ([a-z0-9-]+(?:, [a-z0-9-]+)*)$")
_IN_CONDITIONS = {"cuda", "nccl"}
_FLAGS = {"on_gpu", "_on_gpu", "on_device"}
_LIBRARIES = {"pynvml", "bitsandbytes"}
# Paths that no step of the proof runs, and why.
NO_STEP = {
    "torchrun-nccl": "raybench under torchrun, without Ray: one GPU a rank, and a proof has one GPU",
    "nccl-hang": "what NCCL leaves behind when ranks hang: a step would have to wait for its watchdog, minutes",
}
# Conditions on a GPU or NCCL in what is pure: it is given documents or tables, and tests give it those of GPUs.
PURE = {
    "raybench/benchmarks/training/exposure/division.py": "a trace",
    "raybench/execution/placement.py": "nodes as Ray lists them",
    "raybench/expectations/shape.py": "a result",
    "raybench/performance_model/memory/activations.py": "the setup of a training",
    "raybench/reports/builders/run/report.py": "a result",
    "raybench/reports/study/view.py": "a study",
    "raybench/reports/workloads/training.py": "a result",
    "raybench/services/estimating/measured.py": "a result",
    "raybench/timeline/growth.py": "a result",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPath:
    """A marked statement, function or class. ``name``: the function or class that it is, or is in."""

    file: str
    line: int
    name: str
    steps: tuple[str, ...]

    def proofs(self, records: Mapping[str, Record]) -> list[str]:
        """Records of a GPU that have one of its steps."""
        return sorted({name for step in self.steps for name in proved_by(step, dict(records))})


def sources(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Path and text of every file that is looked at."""
    for source in SOURCES:
        path = root / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield str(file.relative_to(root)), file.read_text(encoding="utf-8")


@functools.cache
def paths_of(file: str, text: str) -> tuple[GpuPath, ...]:
    """The marked paths of a file, in order."""
    marks = _marks(text)
    if not marks:
        return ()
    tree = ast.parse(text)
    return tuple(GpuPath(file=file, line=line, name=_name_at(tree, line), steps=steps) for line, steps in marks)


def _marks(text: str) -> list[tuple[int, tuple[str, ...]]]:
    if "# gpu: " not in text:
        return []
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = _MARK.search(token.string) if token.type == tokenize.COMMENT else None
        if match:
            found.append((token.start[0], tuple(match[1].split(", "))))
    return found


def _name_at(tree: ast.AST, line: int) -> str:
    """The dotted name of the innermost function or class at a line."""
    names = []
    node: ast.AST | None = tree
    while node is not None:
        definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        inner = [one for one in ast.walk(node) if isinstance(one, definitions) and one is not node]
        within = [one for one in inner if _begin(one) <= line <= (one.end_lineno or 0)]
        node = min(within, key=lambda one: one.lineno, default=None)
        if isinstance(node, definitions):
            names.append(node.name)
    return ".".join(names) or "module"


def _begin(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def unmarked(text: str) -> list[tuple[int, str]]:
    """Line and code of what only a GPU decides, calls or imports and no marker covers."""
    if not any(word in text for word in ("torch.cuda", *_IN_CONDITIONS, *_FLAGS, *_LIBRARIES)):
        return []
    tree, marks = ast.parse(text), {line for line, _ in _marks(text)}
    covered = {
        line
        for node in ast.walk(tree)
        if marks and isinstance(node, ast.stmt) and marks & set(range(_begin(node), _header_end(node) + 1))
        for line in range(_begin(node), (node.end_lineno or node.lineno) + 1)
    }
    found = {
        (node.lineno, ast.unparse(node))
        for node in _of_gpus(tree, has_torch=_imports_torch(tree))
        if node.lineno not in covered
    }
    return sorted(found)


def _header_end(node: ast.stmt) -> int:
    """The last line of a statement without those in it."""
    body = getattr(node, "body", None)
    return max(body[0].lineno - 1, node.lineno) if body else node.end_lineno or node.lineno


def _of_gpus(tree: ast.AST, *, has_torch: bool) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute() if has_torch and ast.unparse(node) == "torch.cuda":
                yield node
            case ast.Compare() if _IN_CONDITIONS & _texts(node):
                yield node
            case ast.If(test=test) | ast.IfExp(test=test) if _FLAGS & _names(test):
                yield test
            case ast.Call(args=words) if _LIBRARIES & {text for one in words for text in _texts(one)}:
                yield node


def _imports_torch(tree: ast.AST) -> bool:
    """Else a ``torch`` is something of its own, such as a reading."""
    return any(isinstance(one, ast.Import) and one.names[0].name.split(".")[0] == "torch" for one in ast.walk(tree))


def _texts(node: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def _names(node: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the list, or write the document. Returns 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.paths", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write docs/gpu.md")
    parser.add_argument("--unmarked", action="store_true", help="list what no marker covers")
    options = parser.parse_args(arguments)
    records = {name: record for name, record in records_in().items() if record.is_of_gpu}
    if options.write:
        from tests.gpu.document import document

        DOCUMENT.write_text(document(records), encoding="utf-8")
        return 0
    if options.unmarked:
        for file, text in sources():
            for line, code in unmarked(text) if file not in PURE else ():
                print(f"{file}:{line}: {code}")
        return 0
    found = [one for file, text in sources() for one in paths_of(file, text)]
    for path in found:
        proofs = path.proofs(records)
        print(f"{path.file}:{path.line} {path.name}: {', '.join(path.steps)}: {', '.join(proofs) or 'not proved'}")
    print(f"{len(found)} paths, {sum(not one.proofs(records) for one in found)} of them not proved on a GPU")
    return 0


if __name__ == "__main__":
    sys.exit(main())
