"""A rule that asks for a kind of event that no parser makes never fires, and nobody notices: read from the code."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import diagnostics
from diagnostics import parsers
from diagnostics.parsers.base import Pattern

MADE_BY_THE_SCANNER = {"shell-variable", "unclassified-warning"}
_ASKING = {"of", "first", "count"}  # methods of JobFacts that take kinds


def known_kinds() -> set[str]:
    modules = [
        importlib.import_module(f"{parsers.__name__}.{one.name}") for one in pkgutil.iter_modules(parsers.__path__)
    ]
    values = [value for module in modules for value in vars(module).values()]
    nested = [one for value in values if isinstance(value, tuple) for one in value]
    return {one.kind for one in [*values, *nested] if isinstance(one, Pattern)} | MADE_BY_THE_SCANNER


def words(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    """The texts in an expression, through the module's own constants."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from words(part, constants)
        case ast.Starred(value=inner):
            yield from words(inner, constants)
        case ast.Name(id=name) if name in constants:
            yield from words(constants[name], constants)
        case ast.Call(func=ast.Name(id="frozenset"), args=arguments):
            for argument in arguments:
                yield from words(argument, constants)
        case ast.IfExp(body=one, orelse=other):
            yield from words(one, constants)
            yield from words(other, constants)


def asked(source: str) -> set[str]:
    """The kinds of events that a module asks for."""
    tree = ast.parse(source)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    constants = {one.id: node.value for node in assigned for one in node.targets if isinstance(one, ast.Name)}
    found: set[str] = set()
    for node in ast.walk(tree):
        kinds: list[ast.expr] = []
        match node:
            case ast.Call(func=ast.Attribute(attr=name, value=owner), args=arguments) if name in _ASKING:
                is_text = isinstance(owner, ast.Constant) or (isinstance(owner, ast.Name) and owner.id == "text")
                kinds = [] if is_text else arguments
            case ast.Call(func=ast.Name(id="warned"), args=[_, kind]):
                kinds = [kind]
            case ast.Compare(left=ast.Attribute(attr="kind"), comparators=kinds):
                pass
        for kind in kinds:
            found.update(words(kind, constants))
    return found


def test_every_kind_that_is_asked_for_is_made_by_a_parser() -> None:
    known = known_kinds()
    everything: set[str] = set()
    for path in sorted(Path(diagnostics.__file__).parent.rglob("*.py")):
        kinds = asked(path.read_text(encoding="utf-8"))
        assert kinds <= known, f"{path.name} asks for {sorted(kinds - known)}, which no line of a log becomes"
        everything |= kinds
    assert len(everything) > 100


def test_a_misspelt_kind_would_be_seen() -> None:
    source = (
        '_SIGNS = ("peer-closed", "trace")\n'
        'facts.of("connect-fialed", *_SIGNS)\nfacts.first("x-one")\nwarned(facts, "x-two")\n'
        'event.kind in ("x-three", "trace")\n"text".count("no kind")\n'
    )
    assert asked(source) - known_kinds() == {"connect-fialed", "x-one", "x-two", "x-three"}
