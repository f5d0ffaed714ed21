"""A run as its JSON document."""

import msgspec

from raybench.documents.result import RunResult


def render_json(result: RunResult, _diagnosis: object = None) -> str:
    """The content of ``result.json``, indented; the diagnosis of its logs is a document of its own."""
    return msgspec.json.format(msgspec.json.encode(result.to_json()), indent=2).decode() + "\n"
