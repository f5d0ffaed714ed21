"""The words in which results, runs and checks end, by how bad they are. Pure."""

from collections.abc import Sequence

FAILED = ("critical", "fail", "failed")
INCOMPLETE = ("incomplete", "partial", "missing", "error")
WORSE = ("warn",)  # of a check: worse than before, without having failed
_NOTHING_KNOWN = ("unknown", "skipped")
_RANKS = (
    ("skipped",),
    ("pass", "ok", "complete"),
    ("warning",),
    ("unknown",),
    ("warn",),
    INCOMPLETE,
    FAILED,
)  # the best first
_RANK_OF = {word: rank for rank, words in enumerate(_RANKS) for word in words}
_UNKNOWN = "unknown"


def rank_of(word: str) -> int:
    """How bad it is; a word that is none of these is as unknown as "unknown"."""
    return _RANK_OF.get(word, _RANK_OF[_UNKNOWN])


def is_known(word: str | None) -> bool:
    """Whether it answers anything."""
    return word in _RANK_OF and word not in _NOTHING_KNOWN


def worst_word(words: Sequence[str]) -> str:
    """The worst of several results' words; "unknown" where it is none of ours."""
    worst = max(words, key=rank_of)
    return worst if worst in _RANK_OF else _UNKNOWN
