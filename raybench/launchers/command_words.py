"""The command that a scheduler runs: which commands can be launched, and where their results go. Pure."""

from collections.abc import Sequence
from pathlib import Path

from raybench.errors import UsageError, known_names

LAUNCHED = ("run", "train", "memory", "checkpoint", "study")
_PLACE = ("--address", "--output-dir")


def check_words(words: Sequence[str], *, own_folder: bool = False) -> None:
    """Raises UsageError for a command that cannot be launched, and for options that the launch sets itself.

    ``own_folder``: the launch leaves --output-dir to the command.
    """
    if not words:
        raise UsageError("say what to run after --, such as '-- run --suite all_reduce'")
    if words[0] not in LAUNCHED:
        raise UsageError(f"'{words[0]}' cannot be launched; {known_names(words[0], LAUNCHED)}")
    if words[0] == "study" and (len(words) < 2 or words[1].startswith("-") or words[1] == "show"):
        raise UsageError("name the study that is launched, such as '-- study scaling --nodes 1,2,4'")
    for word in words:
        name = word.partition("=")[0]
        if name in _PLACE and not (own_folder and name == "--output-dir"):
            raise UsageError(f"{name} after -- is not taken: the launch sets it; give --output-dir before the --")


def placed_words(words: Sequence[str], *, nodes: int, output_dir: Path) -> list[str]:
    """The command with where its results go, and on how many nodes it is where it does not say."""
    own, after = _parts(words)
    return [*with_folder(own, output_dir), *([] if says_nodes(words) else ["--nodes", str(nodes)]), *after]


def with_folder(words: Sequence[str], output_dir: Path) -> list[str]:
    """The command with where its results go."""
    own, after = _parts(words)
    return [*own, "--output-dir", str(output_dir), *after]


def says_nodes(words: Sequence[str]) -> bool:
    """Whether the command itself says on how many nodes it is, as a study does."""
    own, _ = _parts(words)
    return words[0] == "study" or any(word.partition("=")[0] in ("--nodes", "--config") for word in own)


def _parts(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is before a ``--`` of the command itself, as a study has it, and the rest."""
    end = words.index("--") if "--" in words else len(words)
    return list(words[:end]), list(words[end:])
