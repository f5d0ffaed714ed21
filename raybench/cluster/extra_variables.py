"""Variables for a playbook, as a file that Ansible reads and nobody else does.

Every string is tagged ``!unsafe``: Ansible then never looks for a template in it, so that ``{{ lookup('pipe', ...) }}``
in a value that came from elsewhere stays the text it is.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml


class _Text(str):
    """A string that is to be written with the tag."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    """Writes ``_Text`` with its tag, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


_Dumper.add_representer(_Text, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"'))


def variables_file(path: Path, variables: Mapping[str, Any]) -> None:
    """Write variables of plain types (strings, numbers, booleans, None, lists, dictionaries) to a file of mode 0600."""
    text = yaml.dump(_tagged(variables), Dumper=_Dumper, default_flow_style=False, sort_keys=False)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _tagged(value: Any) -> Any:
    if isinstance(value, str):
        return _Text(value)
    if isinstance(value, Mapping):
        return {str(name): _tagged(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_tagged(item) for item in value]
    return value
