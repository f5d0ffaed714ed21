"""A document as JSON."""

from typing import Any

import msgspec


def render_json(document: Any, _diagnosis: object = None) -> str:
    """The content of its file, indented; the diagnosis of a run's logs is a document of its own."""
    return msgspec.json.format(msgspec.json.encode(document.to_json()), indent=2).decode() + "\n"
