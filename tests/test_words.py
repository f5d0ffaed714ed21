"""Words that the glossary rules out stand nowhere in code and docs: one word for one thing."""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("raybench", "diagnostics", "playbooks", "docs", "inventory", "README.md", "CONTRIBUTING.md")
SUFFIXES = {".py", ".md", ".yml", ".j2"}
_IS_NO = re.compile(r"(?<!there )(?<!There )\b(?:is|are) no (?!longer\b|more\b|later\b)[a-z]")
_MAY_BE = re.compile(r"\b(?:is|are)\b\W+f?\W*no\b")  # in the source: quotes and lines may stand between the words
# Where a word is another one, or a key or option that never changes.
LORA = (
    *("raybench/benchmarks/training/", "raybench/performance_model/", "raybench/studies/strategy.py"),
    *(
        "raybench/reports/workloads/training_summary.py",
        "raybench/cli/train.py",
        "raybench/cli/estimate",
        "raybench/services/estimating/",
        "raybench/cli/planning/plan.py",
        *(f"raybench/services/planning/{name}.py" for name in ("options", "request", "samples")),
        "raybench/services/planning/program_lines.py",  # Axolotl's key of LoRA
    ),
    *("docs/methods.md", "README.md", "raybench/documents/estimate.py"),
)
ALLOWED = {
    "left_out": (  # the key
        *("raybench/documents/", "raybench/timeline/", "raybench/reports/samples.py"),
        *("raybench/reports/workloads/messages.py", "diagnostics/agent/"),
    ),
    "adapter": (*LORA, "raybench/preflight/parsers/rdma.py"),  # ibstat's channel adapter
    "stranger": (
        "raybench/documents/cluster_status.py",
        "raybench/hosts/cluster_play.py",
        "raybench/reports/builders/cluster.py",
    ),
}


def ruled_out(glossary: str) -> dict[str, re.Pattern[str]]:
    """The words in the last column of the tables that have "we do not say" there."""
    words: list[str] = []
    for table in glossary.split("\n\n"):
        if "| we do not say |" in table:
            words += [word for row in table.splitlines()[2:] for word in re.findall(r"`([^`]+)`", row.split("|")[-2])]
    return {word: re.compile(rf"(?<![\w-]){re.escape(word)}s?(?![\w-])", re.IGNORECASE) for word in words}


@cache
def words() -> dict[str, re.Pattern[str]]:
    return ruled_out((ROOT / "docs/glossary.md").read_text())


def sources() -> Iterator[tuple[str, str]]:
    for name in SOURCES:
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            place = file.relative_to(ROOT).as_posix()
            if file.suffix in SUFFIXES and place != "docs/glossary.md" and "_made" not in file.parts:
                yield place, file.read_text()


def found(place: str, text: str) -> Sequence[str]:
    """``file:line: word`` for each word that is ruled out."""
    lowered = text.lower()
    return [
        f"{place}:{number}: {word}"
        for word, pattern in words().items()
        if word.lower() in lowered and not place.startswith(ALLOWED.get(word, ())) and pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def test_words_that_the_glossary_rules_out_stand_nowhere() -> None:
    complaints = [one for place, text in sources() for one in found(place, text)]
    assert complaints == [], "docs/glossary.md has the word to use instead"


def messages(text: str) -> Iterator[str]:
    """Texts of a program, docstrings apart."""
    tree = ast.parse(text)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    yield from (
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    )


def germanisms(text: str) -> list[str]:
    """Messages that say "X is no Y" for "X is not a Y"; not of what is absent ("there is no Y")."""
    return [message for message in messages(text) if _IS_NO.search(message)] if _MAY_BE.search(text) else []


def test_no_message_says_is_no_for_is_not_a() -> None:
    assert germanisms('say(f"{place} is no log")') == [" is no log"]
    assert germanisms('say("these are no names; give names")') == ["these are no names; give names"]
    assert germanisms('say(\n    "x is "\n    f"no {kind}, and y is"\n    f" no name"\n)') == [", and y is no name"]
    assert germanisms('"""It is no log."""\n"there is no log, it is no longer here, and X is not a log"') == []
    complaints = [
        f"{place}: {message[:80]!r}"
        for place, text in sources()
        if place.endswith(".py")
        for message in germanisms(text)
    ]
    assert complaints == [], "write 'is not a'"


def test_the_glossary_rules_words_out_and_they_are_found() -> None:
    assert {"network card", "micro_step", "left_out", "likeness", "wrong use"} <= set(words())
    text = "the tied table\nmicro-step 3, not micro-steps\nwrong useful, discard, NIC, cardinal, hca-adapter"
    assert found("x.py", text) == ["x.py:2: micro-step", "x.py:1: tied table"]
    assert found("raybench/cli/train.py", "an adapter") == []
    assert found("raybench/cli/fabric.py", "an Adapter") == ["raybench/cli/fabric.py:1: adapter"]
