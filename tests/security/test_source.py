"""The source calls nothing that runs what it reads: no shell, no pickle of others, no evaluated text, no loose archive.

The rules of bandit, as ruff has them, look at the rest of the source in each check of style; the modules of hosts are
out of their reach, and are looked at here as all else is.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.command import REPOSITORY

FOLDERS = ("raybench", "diagnostics", "playbooks")
_SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands.getoutput"}
_LOADS = {
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads", "shelve.open", "yaml.load"),
    *("yaml.unsafe_load", "yaml.full_load", "torch.load", "numpy.load", "np.load", "tempfile.mktemp"),
}
_BUILT_IN = {"eval", "exec", "compile", "__import__"}
_LAST = {name.rpartition(".")[2] for name in _SHELLS | _LOADS | _BUILT_IN} | {"extract", "extractall"}
# A source without any of these has no such call: most are not parsed.
_MAY_BE = re.compile(rf"(?<![.\w])(?:{'|'.join(_BUILT_IN)})\s*\(|\b(?:{'|'.join(_LAST - _BUILT_IN)})\s*\(|\bshell\b")
ALLOWED = {
    "diagnostics/inputs/forked.py: pickle.loads": "a pipe of our own child",
    **dict.fromkeys(
        (
            f"playbooks/library/raybench_{name}.py: {call}"
            for name in ("node_test", "probe")
            for call in ("compile", "exec")
        ),
        "source of the control node's own, sent with the call",
    ),
    "raybench/benchmarks/rank/flight_record.py: pickle.loads": "made in this process a moment ago",
    "raybench/execution/driver_channel.py: pickle.loads": "a pipe of our own child",
    "raybench/config.py: yaml.load": "a loader that makes plain values only",
    "raybench/launchers/kubernetes/frame.py: extract": "plain files only, bounded, and by tarfile's filter for data",
    "raybench/services/preflight_expectations.py: yaml.load": "BaseLoader makes texts, lists and dictionaries",
}


def called(source: str) -> Iterator[str]:
    """The dangerous calls in it."""
    if not _MAY_BE.search(source):
        return
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        last = getattr(call.func, "attr", getattr(call.func, "id", ""))
        name = ast.unparse(call.func) if last in _LAST else ""
        if name in _SHELLS | _LOADS | _BUILT_IN:
            yield name
        if any(one.arg == "shell" and not _is_false(one.value) for one in call.keywords):
            yield "shell=True"
        if name.endswith((".extractall", ".extract")):
            yield "extract"


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def test_nothing_that_is_read_is_run() -> None:
    paths = sorted(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.py"))
    found = {f"{path.relative_to(REPOSITORY)}: {name}" for path in paths for name in called(path.read_text())}
    assert found - ALLOWED.keys() == set()
    assert ALLOWED.keys() - found == set(), "those have gone"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("subprocess.run(words, shell=True)", "shell=True"),
        ("subprocess.run(words, shell=not plain)", "shell=True"),
        ("subprocess.run(words, shell=False)", None),
        ("os.system(text)", "os.system"),
        ("eval(text)", "eval"),
        ("re.compile(text)", None),
        ("archive.extractall(folder)", "extract"),
        ("pickle.loads(data)", "pickle.loads"),
        ("pickle.dumps(value)", None),
    ],
)
def test_what_would_run_it_is_found(source: str, name: str | None) -> None:
    assert list(called(source)) == ([name] if name else [])


def test_the_rules_of_bandit_are_on_and_each_that_is_off_has_its_reason() -> None:
    """What ``ruff`` is told in pyproject.toml: CI checks it with every change."""
    text = (REPOSITORY / "pyproject.toml").read_text()
    selected = text.partition("select = [")[2].partition("]")[0]
    assert '"S"' in selected
    off = [line for line in text.partition("\nignore = [")[2].partition("\n]")[0].splitlines() if '"S' in line]
    assert len(off) == 3
    assert all("#" in line for line in off), "say why"
