"""Values of ``--expect NAME=VALUE``: text as it was typed, turned into the type that the variable is declared with."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from raybench.errors import UsageError, known_names
from raybench.preflight.expectations import PREFIX, Expectations, kind_of, read_expectations

_KINDS = {PREFIX + item.name: kind_of(item.type) for item in fields(Expectations)}


def expectations_from(pairs: Sequence[str]) -> dict[str, Any]:
    """Variables of the role from NAME=VALUE. Raises UsageError on an unknown one and on a value of another type."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        full = PREFIX + name.strip().replace("-", "_").removeprefix(PREFIX)
        if not equals or full not in _KINDS:
            known = known_names(full.removeprefix(PREFIX), sorted(one.removeprefix(PREFIX) for one in _KINDS))
            raise UsageError(f"--expect {pair!r} is not NAME=VALUE with a name of an expectation; {known}")
        try:
            found[full] = expected_value(full, text)
        except ValueError as error:
            raise UsageError(f"--expect {pair!r}: {error}") from error
    return found


def expected_value(name: str, text: str) -> Any:
    """The value of a variable ``preflight_NAME`` from text.

    A text stays as it was typed, but for quotes around all of it; lists and dictionaries are read as YAML writes them,
    their members as text: ``{torch: 2.10}`` is the version 2.10. Raises ValueError where it is none of that type.
    """
    kind, plain = _KINDS[name], text.strip()
    if kind == "str":
        quoted = len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'"
        return plain[1:-1] if quoted else text
    structured = plain and (kind == "dict" or plain.startswith("["))
    values, problems = read_expectations({name: _texts(plain) if structured else plain})
    if problems:
        raise ValueError(problems[0])
    value = getattr(values, name.removeprefix(PREFIX))
    return list(value) if isinstance(value, tuple) else value


def _texts(text: str) -> Any:
    import yaml  # comes with Ansible, and only some values need it

    try:
        return yaml.load(text, yaml.BaseLoader)  # noqa: S506 - makes nothing but texts, lists and dictionaries
    except yaml.YAMLError as error:
        raise ValueError(f"the value cannot be read: {' '.join(str(error).split())}") from error
