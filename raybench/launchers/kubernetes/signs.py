"""What Kubernetes says of an object, and what it means. Pure."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "image", "unschedulable", "out-of-memory", "crash-loop", "container", "volume", "sandbox", "missing-kind",
    "not-admitted", "quota", "forbidden", "evicted", "deadline", "killed", "failed",
    "unreachable",
]  # fmt: skip
_MOST_LETTERS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What was said of one object. ``exit_code``: of a container that has ended."""

    subject: str
    reason: str
    message: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is the matter, in words, and the next step. ``waits``: it may yet start by itself."""

    kind: Kind
    subject: str
    what: str
    advice: str
    waits: bool = False

    def text(self) -> str:
        """One line."""
        return f"{self.subject}: {self.what}. {self.advice}"


def short(text: str) -> str:
    """One line of a text that others wrote, without control characters."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    words = " ".join(plain.split()).rstrip(".")
    return words if len(words) <= _MOST_LETTERS else f"{words[:_MOST_LETTERS]}..."
