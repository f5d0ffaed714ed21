"""Variables for a playbook, as a file that Ansible reads and nobody else does.

JSON, since YAML gives a plain ``on``, ``0755`` or ``6.10`` another type, even under the tag ``!unsafe``. Every string
is marked unsafe in Ansible's own way: Ansible never looks for a template in it, so that ``{{ lookup('pipe', ...) }}``
in a value that came from elsewhere stays the text it is.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raybench.errors import UsageError

_MARK = "__ansible_unsafe"
_RESERVED = "__ansible_"  # a dictionary with such a key is Ansible's own: a vault, a marked string


def variables_file(path: Path, variables: Mapping[str, Any]) -> None:
    """Write variables of plain types (strings, numbers, booleans, None, lists, dictionaries) to a file of mode 0600.

    Raises UsageError on a key that Ansible would take for one of its own marks.
    """
    text = variables_text(variables)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def variables_text(variables: Mapping[str, Any]) -> str:
    """The same as text. Raises UsageError likewise."""
    return json.dumps(_marked(variables), allow_nan=False, indent=1)


def _marked(value: Any) -> Any:
    if isinstance(value, str):
        return {_MARK: value}
    if isinstance(value, Mapping):
        for name in value:
            if str(name).startswith(_RESERVED):
                raise UsageError(
                    f"{name!r} cannot be a name in a value: names beginning with {_RESERVED} are Ansible's"
                )
        return {str(name): _marked(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_marked(item) for item in value]
    return value
