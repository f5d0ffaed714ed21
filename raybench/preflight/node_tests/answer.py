"""What a host says of its tests, unpacked within bounds and checked for its form: a hostile host spoils its own row."""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from raybench.documents.preflight import FigureStatus, NodeFigure
from raybench.preflight.forms import Form, list_of, number, text, whole_number

SCHEMA = "raybench.node_test/1"
_MOST_BYTES = 64 << 20
_MOST_FIGURES = 20_000
_MOST_SAMPLES = 5_000
_MOST_TEXT = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTests:
    """What came back of a host's tests.

    ``problem`` says why they did not end by themselves, ``last`` is then the test that had begun; ``why_no_torch`` why
    tests that need torch could not be done. ``machine`` is the same for hosts that share one: its boot id;
    ``process_space`` for those that see each other's processes, too.
    """

    figures: tuple[NodeFigure, ...] = ()
    problem: str = ""
    last: str = ""
    python: str = ""
    why_no_torch: str = ""
    stack: str = ""
    errors: str = ""
    seconds: float = 0.0
    machine: str = ""
    process_space: str = ""
    processors: int = 1

    def load(self, case: str) -> float:
        """Processors, on average while the tests ran, of a case of ``load``; 0 where that was not measured."""
        return next((one.samples[0] for one in self.figures if (one.test, one.case) == ("load", case)), 0.0)


def read_answer(packed: str, machine: str) -> NodeTests:
    """The tests of a host from what the module packed; one with a ``problem`` where that is damaged."""
    try:
        return _tested(_unpacked(packed), machine)
    except ValueError as error:
        return NodeTests(problem=str(error), machine=machine)


def _unpacked(packed: str) -> Mapping[str, Any]:
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        found: Any = json.loads(content) if unpacking.eof else None
    except (zlib.error, binascii.Error, RecursionError, ValueError, TypeError) as error:
        raise ValueError(f"the answer of the tests is damaged: {error}") from error
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("lines"), list):
        raise ValueError("the answer of the tests is damaged: it is cut off, or has another form")
    if not all(text(found.get(name)) for name in ("python", "why_no_torch", "problem", "errors")):
        raise ValueError("the answer of the tests is damaged: it has another form")
    return found


def _tested(found: Mapping[str, Any], machine: str) -> NodeTests:
    lines = [line for line in found["lines"] if isinstance(line, dict)]
    figures = [line["figure"] for line in lines if isinstance(line.get("figure"), dict)]
    if len(figures) > _MOST_FIGURES or not all(map(_is_figure, figures)):
        raise ValueError("the answer of the tests is damaged: a figure has another form")
    facts: dict[str, Any] = {}
    for line in lines:
        facts |= line["facts"] if isinstance(line.get("facts"), dict) else {}
    processors = facts.get("processors")
    begun = [line["begun"] for line in lines if text(line.get("begun"))]
    seconds = found.get("seconds")
    return NodeTests(
        figures=tuple(map(_figure, figures)),
        problem=found["problem"][:_MOST_TEXT],
        last=begun[-1][:_MOST_TEXT] if begun else "",
        python=found["python"][:_MOST_TEXT],
        why_no_torch=found["why_no_torch"][:_MOST_TEXT],
        stack=str(facts.get("torch", ""))[:_MOST_TEXT],
        errors=found["errors"][-_MOST_TEXT:],
        seconds=float(seconds) if isinstance(seconds, int | float) and number(seconds) else 0.0,
        machine=machine,
        process_space=str(facts.get("pid_namespace", ""))[:_MOST_TEXT],
        processors=processors if whole_number(processors) and processors else 1,
    )


_FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("test", "device", "case", "reason", "model", "setting", "unit", "detail"), text),
    "status": lambda value: value in get_args(FigureStatus),
    "samples": lambda value: list_of(number)(value) and len(value) <= _MOST_SAMPLES,
    "checked": whole_number,
    "wrong": whole_number,
}


def _is_figure(value: Mapping[str, Any]) -> bool:
    if value.get("test") == "load" and not value.get("samples"):
        return False
    return "test" in value and all(name in _FORMS and _FORMS[name](one) for name, one in value.items())


def _figure(value: Mapping[str, Any]) -> NodeFigure:
    cut: dict[str, Any] = {name: one[:_MOST_TEXT] if isinstance(one, str) else one for name, one in value.items()}
    cut["samples"] = tuple(float(one) for one in value.get("samples", ()))
    return NodeFigure(**cut)
