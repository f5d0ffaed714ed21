"""What the commands print of a document: whatever loads can be shown."""

from collections.abc import Callable, Mapping
from typing import Any

SHOWN: Mapping[str, Callable[[Any], object]] = {}


def shown(document: Any) -> None:
    """Show it as its command would. Raises what the command would end with."""
    show = SHOWN.get(type(document).__name__)
    if show is not None:
        show(document)
