"""What to type for a library that is missing, in a checkout and from a wheel."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from raybench import installation
from raybench.installation import RAY_TESTED, install_advice, packages_of
from tests.conftest import REPOSITORY

_WRITTEN = [
    "click>=8.1",
    "ray>=2.55; extra == 'run'",
    "torch>=2.6 ; extra == 'run'",
    "jinja2>=3.1; extra == 'report'",
    "raybench[run,report]; extra == 'all'",
]


def test_a_checkout_names_its_extra_and_its_place() -> None:
    assert install_advice("run", REPOSITORY) == f"pip install '.[run]' in {REPOSITORY}"


def test_a_wheel_names_the_packages_and_never_asks_an_index_for_raybench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "requires", lambda _: _WRITTEN)
    assert install_advice("run", tmp_path) == "pip install 'ray>=2.55' 'torch>=2.6'"
    assert packages_of("all") == ("ray>=2.55", "torch>=2.6", "jinja2>=3.1")
    assert install_advice("nosuch", tmp_path) == "install what raybench's extra 'nosuch' names"


def test_a_checkout_that_is_not_installed_knows_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "requires", missing)
    run, report = packages_of("run", REPOSITORY), packages_of("report", REPOSITORY)
    assert {re.split(r"[<>=]", one)[0] for one in run} == {"ray", "torch", "numpy", "nvidia-ml-py"}
    assert packages_of("all", REPOSITORY)[: len(run + report)] == run + report
    assert packages_of("nosuch", REPOSITORY) == packages_of("run", Path(sys.prefix)) == ()


def test_the_release_of_ray_that_is_named_is_the_one_that_is_tested() -> None:
    pinned = re.search(r"^ray==(.*)$", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert pinned[1] == RAY_TESTED


def test_no_advice_of_the_package_names_what_only_a_checkout_has() -> None:
    only_there = re.compile(r"playbooks/|constraints\.txt|hosts\.example|docs/|\.ci/|\bmake [a-z]+-")
    found = [
        f"{path.name}:{line}: {text[:80]}"
        for path in sorted((REPOSITORY / "raybench").rglob("*.py"))
        if only_there.search(joined(source := path.read_text()))
        for line, text in shown_texts(ast.parse(source))
        if only_there.search(text)
    ]
    assert found == []


def joined(source: str) -> str:
    """A source with the parts of its texts as one, as Python puts them together."""
    return re.sub(r"""["']\s*f?["']""", "", source)


def shown_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Texts of a file that are not docstrings, each with its line."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    firsts = [node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    docstrings = {id(first.value) for first in firsts if isinstance(first, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
