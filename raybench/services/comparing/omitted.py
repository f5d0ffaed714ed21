"""What else is in a folder of results: what a run that failed left is a gap, anything else is named and no more."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from raybench.comparison.tools.beside import failure_said, is_cut
from raybench.errors import UsageError

_NO_OUTPUT = (".md", ".rst", ".csv", ".tsv", ".sh", ".py", ".sbatch", ".slurm", ".yml", ".yaml", ".toml", ".html")
_NOTES = re.compile(r"(?:readme|notes?|license|changelog|todo)\b", re.IGNORECASE)
_MOST_READ = 2**24  # the end of a longer file is what says how it ended
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Omitted:
    """``lost``: what a run left that has no result, a line each; ``others``: the names of what is none of a run."""

    lost: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def remarks(self, folder: Path) -> tuple[str, ...]:
        """One that names the others, if there are any."""
        more = f" and {len(self.others) - _MOST_NAMED} more" if len(self.others) > _MOST_NAMED else ""
        named = f"{', '.join(self.others[:_MOST_NAMED])}{more}"
        return (f"{folder} is compared without {named}, which hold no results of its kind",) if self.others else ()


def omitted_in(
    folder: Path, taken: Sequence[Path], lost_below: Callable[[Path], str], told: Collection[Path] = ()
) -> Omitted:
    """Of what is in a folder and was not taken for a result; ``told`` is said elsewhere.

    ``lost_below``: what a folder in it says of a failure, "" where nothing. Raises UsageError.
    """
    lost, others = list[str](), list[str]()
    try:
        for one in sorted(folder.iterdir()):
            if one in taken or one in told:
                continue
            why = lost_below(one) if one.is_dir() else _why_lost(one, taken)
            (lost if why else others).append(why or one.name)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror or error}") from error
    return Omitted(lost=tuple(lost), others=tuple(others))


def failed_output(folder: Path, taken: Sequence[Path]) -> str:
    """What the first output of a program in a folder says of a failure; "" where none does. Raises OSError."""
    files = [one for one in sorted(folder.iterdir()) if one not in taken and one.is_file()]
    return next((why for one in files if (why := _failure_in(one, _end_of(one)))), "")


def _why_lost(file: Path, taken: Sequence[Path]) -> str:
    """Why a file that is no result is what a run left that failed or did not end; "" where it is not."""
    if not file.exists():
        return f"{file.name} is a link to nothing"
    if not file.is_file():
        return ""
    text = _end_of(file)
    if not text.strip():
        is_expected = file.name.startswith(".") or file.stem in {one.stem for one in taken}  # as of an error stream
        return "" if is_expected else f"{file.name} is empty"
    if len(text) < _MOST_READ and is_cut(text):
        return f"{file.name} breaks off"
    if why := _failure_in(file, text):
        return why
    alike = _pattern(file.name) in {_pattern(one.name) for one in taken if any(map(str.isdecimal, one.name))}
    return f"{file.name} has no result, and is named as those that have" if alike else ""


def _failure_in(file: Path, text: str) -> str:
    """What a file says of a failure, where it is what a program printed."""
    if file.suffix.lower() in _NO_OUTPUT or _NOTES.match(file.name):
        return ""
    said = failure_said(text)
    return f"{file.name} has no result, and {said}" if said else ""


def _pattern(name: str) -> str:
    """A name with its numbers left open: ``run#.log``."""
    return re.sub(r"\d+", "#", name)


def _end_of(file: Path) -> str:
    """The last of a file's text. Raises OSError."""
    with file.open("rb") as content:
        content.seek(max(file.stat().st_size - _MOST_READ, 0))
        return content.read(_MOST_READ).decode("utf-8", "replace")
