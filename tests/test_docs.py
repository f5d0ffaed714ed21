"""The documents name what exists: every file, and every import that the picture of the architecture draws."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from raybench.performance_model.models.released import released_models
from tests.test_packages import import_statements

ROOT = Path(__file__).parents[1]
_NAMED = re.compile(r"[\w./*-]*\w\.(?:py|yml|csv|j2|toml)\b")
# Files of a recipe's example, and those that a run or a user writes.
EXAMPLES = {
    "CONTRIBUTING.md": {
        "raybench/benchmarks/collectives/all_sum.py",
        "collectives/all_sum.py",
        "raybench/benchmarks/checkpoint/stores/memory.py",
        "diagnostics/rules/gpudirect/gdrcopy_missing.py",
        "raybench/reports/plain.py",
        "mine/__init__.py",
        "mine/rank.py",
        "mine/records.py",
    },
}
WRITTEN = {"result.csv", "hosts.yml", "run.yml", "cluster.yml"}


@cache
def tracked() -> tuple[str, ...]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not listed:
        pytest.skip("this is no git checkout")
    return tuple(listed)


def documents() -> list[str]:
    pages = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "_made" not in path.parts]
    return ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in pages)]


def missing(text: str, files: tuple[str, ...]) -> list[str]:
    """Files that code in backticks names and that no path of ``files`` ends with."""
    named = {path for code in re.findall(r"`([^`\n]+)`", text) for path in _NAMED.findall(code)} - WRITTEN
    patterns = {path: re.compile("(?:^|/)" + re.escape(path).replace(r"\*", "[^/]*") + "$") for path in named}
    return sorted(path for path, pattern in patterns.items() if not any(map(pattern.search, files)))


@pytest.mark.parametrize("document", documents())
def test_every_file_that_a_document_names_exists(document: str) -> None:
    found = missing((ROOT / document).read_text(), tracked())
    assert set(found) - EXAMPLES.get(document, set()) == set(), "name the file as it is called now"


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", "docs/security.md"])
def test_every_test_that_a_document_names_exists(document: str) -> None:
    """A recipe names the test that fails when a step is left out, a claim on security the one that shows it."""
    text = (ROOT / document).read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 10
    assert named - set(re.findall(r"^def (test_\w+)", written, flags=re.MULTILINE)) == set()


def test_a_file_that_was_renamed_is_found_by_its_old_name() -> None:
    files = ("raybench/execution/placement.py", "playbooks/module_utils/raybench_fabric_end.py")
    text = "`placement.py`, `execution/placement.py`, `raybench_fabric_*.py`; `place.py`, `agents/placement.py`"
    assert missing(text, files) == ["agents/placement.py", "place.py"]


def edges(picture: str) -> Iterator[tuple[set[str], set[str]]]:
    """(packages, packages that they import) for each solid arrow; a box names its packages in bold."""
    boxes = {
        name: {part.strip() for bold in re.findall(r"<b>(.*?)</b>", label) for part in bold.split(",")}
        for name, label in re.findall(r"^ *(\w+)\[\"(.*)\"\]$", picture, flags=re.MULTILINE)
    }
    for above, below in re.findall(r"^ *(\w+) --> (\w+)$", picture, flags=re.MULTILINE):
        yield boxes[above], boxes[below]


def folder(package: str) -> str:
    return package if package == "diagnostics" else f"raybench/{package}"


@cache
def imported_by(package: str) -> frozenset[str]:
    """The modules that a package imports, also within functions."""
    names: set[str] = set()
    for path in (ROOT / folder(package)).rglob("*.py"):
        for node, _ in import_statements(path):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names |= {f"{node.module}.{one.name}" for one in node.names}
            if isinstance(node, ast.Import):
                names |= {one.name for one in node.names}
    return frozenset(names)


def imports(above: str, below: str) -> bool:
    start = folder(below).replace("/", ".")
    return any(name == start or name.startswith(f"{start}.") for name in imported_by(above))


def test_every_arrow_of_the_picture_is_an_import_and_none_points_up() -> None:
    picture = (ROOT / "docs/architecture.md").read_text().partition("```mermaid\n")[2].partition("```")[0]
    drawn = list(edges(picture))
    assert len(drawn) > 10
    for above, below in drawn:
        assert any(imports(one, other) for one in above for other in below), f"{above} imports nothing of {below}"
        assert not any(imports(other, one) for one in above for other in below), f"{below} imports {above}"


def test_an_arrow_that_is_not_so_is_found() -> None:
    assert imports("services", "execution")
    assert not imports("execution", "services")
    assert not imports("reports", "benchmarks")


def test_the_guide_says_how_many_released_models_are_known_by_their_name() -> None:
    """It said 100 of 190."""
    said = re.search(r"(\d+) more released models", (ROOT / "docs" / "usage.md").read_text())
    assert said is not None
    assert 0 <= len(released_models()) - int(said[1]) < 20
