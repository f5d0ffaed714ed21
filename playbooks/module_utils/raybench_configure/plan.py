"""What an item of the configuration wants of a host, before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .resources.file import FileResource, content_of, file_state
from .resources.resource import Resource, State

HEADER = "# Written by raybench configure ({item}); undo it with: raybench configure --rollback\n"


@dataclass(frozen=True)
class Setting:
    """A resource and what it shall be, from what it is. ``wanted`` returns its argument where that is right.

    ``whole`` says that the file is all ours: where it was edited since, those edits are left alone.
    """

    resource: Resource
    wanted: Callable[[State], State]
    whole: bool = False


@dataclass
class ItemPlan:
    """Settings in the order in which they are made, what is said about them, and why there may be none.

    ``pending`` says what takes effect only after something that raybench does not do by itself: a new login, a restart
    of a service, a reboot (``reboot``). It is said when something changes. ``advice`` is said always. ``problem`` is
    why what was asked for cannot be had; nothing is changed then.
    """

    settings: list[Setting] = field(default_factory=list)
    skipped: str | None = None
    problem: str | None = None
    notes: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    reboot: list[str] = field(default_factory=list)
    reload: list[list[str]] = field(default_factory=list)


def skip(reason: str, *, notes: Sequence[str] = (), advice: Sequence[str] = (), reboot: Sequence[str] = ()) -> ItemPlan:
    """A plan that does nothing, and says why."""
    return ItemPlan(skipped=reason, notes=list(notes), advice=list(advice), reboot=list(reboot))


def own_file(item: str, path: str, body: str, mode: int = 0o644) -> Setting:
    """A file that is all ours."""
    state = file_state((HEADER.format(item=item) + body).encode(), mode=mode)
    return Setting(FileResource(path), lambda _: state, whole=True)


def edited_file(path: str, edit: Callable[[str], str], mode: int = 0o644) -> Setting:
    """A file that others write too: ``edit`` takes its text and returns the new one, with their lines kept."""

    def wanted(before: State) -> State:
        text = content_of(before).decode("utf-8", "surrogateescape") if before else ""
        changed = edit(text)
        if changed == text:
            return before
        return file_state(changed.encode("utf-8", "surrogateescape"), **_attributes(before, mode))

    return Setting(FileResource(path), wanted)


def block(text: str, item: str, lines: list[str]) -> str:
    """The text with our marked block holding these lines, at its place or at the end; without it for no lines."""
    begin, end = f"# BEGIN raybench {item}\n", f"# END raybench {item}\n"
    body = begin + "".join(f"{line}\n" for line in lines) + end if lines else ""
    start, stop = text.find(begin), text.find(end)
    if 0 <= start < stop:
        return text[:start] + body + text[stop + len(end) :]
    if not body:
        return text
    return text + ("" if not text or text.endswith("\n") else "\n") + body


def _attributes(before: State, mode: int) -> dict[str, int]:
    return {name: before[name] for name in ("mode", "uid", "gid")} if before else {"mode": mode}


def fixed(**state: object) -> Callable[[State], State]:
    """A state whatever it was before; what has no such setting at all is left so."""
    return lambda before: None if before is None else {**before, **state}


def every(value: str) -> Callable[[State], State]:
    """One value for every file of a ValueResource."""
    return lambda before: None if before is None else dict.fromkeys(before, value)
