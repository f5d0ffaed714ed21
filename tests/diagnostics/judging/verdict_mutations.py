"""Failed logs, mutated: ``python -m tests.diagnostics.judging.verdict_mutations [--cuts 200] [--seed 1] FOLDER...``.

Each log of the folders (``*.log``) that is critical as it stands is cut at random places, its processes' lines are
shuffled into each other in several ways, and the marks of NCCL, or parts of them, are taken from its lines. While a
line that the first finding rests on is still there (all of them, where it compares ranks), the verdict must not become
ok. Exit code 1 where it does, 2 where a folder holds no log or no log is critical: nothing is shown then.
"""

import argparse
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostics.findings import Diagnosis
from tests.diagnostics.threads import diagnose

_PROCESS = re.compile(r"([\w.\-<>]+:\d+):\d+ \[-?\d+\]")
_MARK = re.compile(r"[\w.\-<>]+:\d+:\d+ \[-?\d+\] (?:[\w/.\-]+:\d+ (?:\(\w+\) )?)?NCCL (?:INFO|WARN) ")
_STRIPPED = {  # what is taken from each line
    "without marks": _MARK,
    "without hosts and processes": re.compile(r"[\w.\-<>]+:\d+:\d+ (?=\[-?\d+\])"),
    "without all before the level": re.compile(
        r"[\w.\-<>]+:\d+:\d+ \[-?\d+\] (?:[\w/.\-]+:\d+ (?:\(\w+\) )?)?(?=NCCL )"
    ),
    "without files": re.compile(r"(?<=\] )[\w/.\-]+:\d+ (?:\(\w+\) )?(?=NCCL )"),
}
_SHUFFLES = 20  # cuts for each shuffle
_COMPARES = frozenset({"single-rank-jobs", "ranks-disagree-on-transport", "version-mismatch", "hca-mixed-link-layers"})
MAX_BYTES = 300_000  # of a log; the head of a longer one is mutated


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A mutated log: how it was made, its text, and whether a decisive line is left in it."""

    how: str
    text: str
    decisive: bool


def mutants(text: str, original: Diagnosis, random_: random.Random, cuts: int) -> Iterator[Mutant]:
    """Mutated forms of a log that is critical."""
    lines = text.splitlines()
    decisive = decisive_bodies(lines, original)
    decides = all if original.findings[0].rule in _COMPARES else any
    for _ in range(cuts):
        place = random_.randrange(1, len(text) + 1)
        yield _mutant(f"cut at {place}", text[:place], decisive, decides)
        place = random_.randrange(len(text))
        yield _mutant(f"begun at {place}", text[place:], decisive, decides)
    for number in range(1 + cuts // _SHUFFLES):
        yield _mutant(f"shuffled ({number})", "\n".join(shuffled(lines, random_)), decisive, decides)
    for how, taken in _STRIPPED.items():
        yield _mutant(how, "\n".join(taken.sub("", line) for line in lines), decisive, decides)


def decisive_bodies(lines: Sequence[str], original: Diagnosis) -> list[str]:
    """What the lines say, without NCCL's mark, on which the first finding rests."""
    numbers = [evidence.line for evidence in original.findings[0].evidence]
    return [_MARK.sub("", lines[number - 1]).strip() for number in numbers if 0 < number <= len(lines)]


def shuffled(lines: Sequence[str], random_: random.Random) -> list[str]:
    """The lines of each process in their order, those of several shuffled into each other."""
    queues: dict[str, list[str]] = defaultdict(list)
    process = ""
    for line in lines:
        match = _PROCESS.search(line)
        process = match[1] if match else process
        queues[process].append(line)
    order = [name for name, queue in queues.items() for _ in queue]
    random_.shuffle(order)
    rest = {name: iter(queue) for name, queue in queues.items()}
    return [next(rest[name]) for name in order]


def _mutant(how: str, text: str, decisive: Sequence[str], decides: Callable[[Iterable[bool]], bool]) -> Mutant:
    return Mutant(how=how, text=text, decisive=decides(body in text for body in decisive if body))


def logs_of(folder: Path) -> list[Path]:
    """The logs of a folder. Raises FileNotFoundError where it holds none."""
    files = sorted(folder.glob("*.log"))
    if files:
        return files
    below = sorted({file.parent for file in folder.rglob("*.log")})
    meant = f": did you mean {below[0]}?" if below else ""
    raise FileNotFoundError(f"no *.log in {folder}{meant}")


def main() -> int:
    """1 where a verdict became ok."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    tried = wrong = without = 0
    try:
        files = [file for folder in options.folders for file in logs_of(folder)]
    except FileNotFoundError as error:
        parser.error(str(error))
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")[:MAX_BYTES]
        original = diagnose(text)
        if original.verdict != "critical":
            continue
        for mutant in mutants(text, original, random_, options.cuts):
            tried += 1
            without += not mutant.decisive
            if mutant.decisive and diagnose(mutant.text).verdict == "ok":
                wrong += 1
                print(f"{file}: ok, {mutant.how}")
    if not tried:
        parser.error(f"none of the {len(files)} logs is critical, so nothing was mutated")
    print(f"{tried} mutants, {without} of them without a decisive line; {wrong} called ok with one")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
