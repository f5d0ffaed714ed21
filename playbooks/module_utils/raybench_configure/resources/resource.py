"""What a host has that can be read, set and set back. A state is a mapping that JSON can carry.

``read`` of a resource that is not there gives None, which is also what ``write`` takes to remove it where that is
possible. Every resource is known again by ``kind`` and ``target``, so that a journal can name it.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..host import Host

State = Optional[Dict[str, Any]]


class Resource:
    """A setting of the host. Subclasses are listed in ``kinds.py``."""

    kind = ""

    def __init__(self, target: str) -> None:
        self.target = target

    def read(self, host: Host) -> State:
        """The state now. Raises HostError where it cannot be read."""
        raise NotImplementedError

    def write(self, host: Host, state: State) -> None:
        """Make it so. Raises HostError."""
        raise NotImplementedError

    def text(self, state: State) -> str:
        """A state as a person reads it, for ``--diff`` and the report."""
        if state is None:
            return ""
        return "".join(f"{name} = {value}\n" for name, value in sorted(state.items()))

    def same(self, one: State, other: State) -> bool:
        """Whether two states are the same setting."""
        return one == other

    def take_back(self, before: State, after: State, current: State) -> tuple[State, list[str]]:
        """What to write so that our change is gone and others' stay, and what had to be left as it is.

        Each name of the state for itself: where it is still what we wrote, its first value comes back.
        """
        if self.same(current, after):
            return before, []
        if before is None or after is None or current is None:
            return current, [self.target]
        wanted, left = dict(current), []
        for name in set(before) | set(after):
            if before.get(name) == after.get(name):
                continue  # never ours
            if current.get(name) == after.get(name):
                wanted[name] = before.get(name)
            elif current.get(name) != before.get(name):
                left.append(name)
        return wanted, sorted(left)
