"""How far estimates are from published trainings that nothing was fitted to, asked in their collectors' own words.

    python -m tests.performance_model.asked.judge [--program]

Each row has the options of ``raybench estimate`` that its collector gave it, what was published, and what its source
leaves open. Those who wrote the rows saw `--help-all` and neither an estimate nor the code, so that what they got wrong
or left out counts as it would for any user. A row that came to be in the tables that constants are fitted to
(`published/`) leaves this folder. With ``--program`` the row's program is said where its first word is one that
raybench knows. A row whose ``verdict`` led to a mechanism is elsewhere by that, and counts here for the rest alone.
Half a minute.
"""

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from click.testing import CliRunner

from raybench.cli.estimate import command
from raybench.performance_model.programs.table import PROGRAMS

FOLDER = Path(__file__).parent
_NEAR = 0.15  # of memory, above which a row is listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One row held against what was published. None: that is not known of it, or the estimate was refused.

    ``seconds``: published over the middle of the bounds. ``memory``: estimated over published.
    """

    source: str
    name: str
    refused: str = ""
    inside: bool | None = None
    width: float | None = None
    seconds: float | None = None
    memory: float | None = None
    fits: bool | None = None
    said: bool | None = None


def rows() -> list[dict[str, Any]]:
    """All that were asked."""
    return [row for path in sorted(FOLDER.glob("*.json")) for row in json.loads(path.read_text())]


def options_of(row: dict[str, Any], *, of_program: bool = False) -> list[str]:
    """The options of ``raybench estimate``; paths of models are those of this folder."""
    options = [str(FOLDER / word) if word.startswith("configs/") else word for word in row["options"]]
    words = row["program"].replace(",", " ").lower().split()
    if of_program and "--program" not in options and words and words[0] in {one.name for one in PROGRAMS}:
        options += ["--program", words[0]]
    return options


def judged(row: dict[str, Any], *, of_program: bool = False) -> Judged:
    """One row, estimated."""
    result = CliRunner().invoke(command, [*options_of(row, of_program=of_program), "--json"])
    source, name = row["source"], row["id"]
    if not result.stdout.startswith("{"):
        return Judged(source=source, name=name, refused=str(result.exception or result.output))
    answer, published = json.loads(result.stdout), row["published"]
    memory, bounds = answer["memory"], answer["step_seconds"]
    seconds = _seconds(answer, published)
    fits = None if "verdict" in row else published.get("fits", True)
    return Judged(
        source=source,
        name=name,
        inside=bounds[0] <= seconds <= bounds[1] if bounds and seconds else None,
        width=bounds[1] / bounds[0] if bounds and seconds else None,
        seconds=seconds / math.sqrt(bounds[0] * bounds[1]) if bounds and seconds else None,
        memory=_memory(memory, published.get("memory_is", "device")) / 2**30 / published["memory_gib"]
        if published.get("memory_gib")
        else None,
        fits=fits,
        said=memory["fits"],
    )


def _seconds(answer: dict[str, Any], published: dict[str, Any]) -> float | None:
    """Published of a step; of tokens a second, those of a step by how many the estimate has."""
    if "step_seconds" in published or "tokens_per_second" not in published or not answer["tokens_per_second"]:
        return published.get("step_seconds")
    rates = answer.get("counted_tokens_per_second") or answer["tokens_per_second"]
    return float(answer["step_seconds"][0] * max(rates) / published["tokens_per_second"])


def _memory(memory: dict[str, Any], kind: str) -> float:
    """What was measured: by PyTorch's allocator, or by the driver. Of the latter what is told as most likely."""
    parts = {"allocated": ("allocated",), "reserved": ("allocated", "fragmentation")}.get(kind, ("likely_peak",))
    return float(sum(memory[part] for part in parts))


def summary(found: Sequence[Judged]) -> str:
    """How many rows there are, and how much of them is right."""
    timed = [one for one in found if one.inside is not None]
    errors = sorted(abs(one.memory - 1) for one in found if one.memory is not None)
    inside, width = sum(bool(one.inside) for one in timed), median(one.width or 0.0 for one in timed)
    refused = sum(bool(one.refused) for one in found)
    by_source, ninth = _by_source(timed), errors[int(0.9 * len(errors))]
    lines = [
        f"{len(found)} rows of {len({one.source for one in found})} sources, {refused} refused",
        f"step times: {inside} of {len(timed)} inside the bounds, {by_source:.0%} by source; median width {width:.2f}",
        f"memory: {len(errors)} rows, median error {median(errors):.0%}, p90 {ninth:.0%}",
    ]
    for ran, words in ((True, "ran, told not to fit"), (False, "out of memory, told to fit")):
        of = [one.said for one in found if one.fits is ran and not one.refused]
        lines.append(f"{words}: {of.count(not ran)} of {len(of)}, left open {of.count(None)}")
    return "\n".join(lines)


def _by_source(timed: Sequence[Judged]) -> float:
    sources: dict[str, list[bool]] = defaultdict(list)
    for one in timed:
        sources[one.source].append(bool(one.inside))
    return mean(mean(inside) for inside in sources.values())


def misses(found: Iterable[Judged]) -> str:
    """A line each."""
    lines = []
    for one in found:
        wrong = None not in (one.said, one.fits) and one.said is not one.fits
        is_off = one.memory is not None and abs(one.memory - 1) > _NEAR
        if one.refused or one.inside is False or is_off or wrong:
            took = "-" if one.seconds is None else f"{one.seconds:.2f}"
            held = "-" if one.memory is None else f"{one.memory:.2f}"
            verdict = f"ran {one.fits}, told to fit {one.said}" if wrong else ""
            lines.append(f"{one.source[:40]:42}{one.name[:32]:34}{took:>6}{held:>7}  {verdict}{one.refused[:80]}")
    return "\n".join(
        [f"{'source':42}{'row':34}{'time':>6}{'held':>6}  published over the middle; told over held", *lines]
    )


def main() -> None:
    """Print the rows that are missed, and the summary."""
    found = [judged(row, of_program="--program" in sys.argv[1:]) for row in rows()]
    sys.stdout.write(f"{misses(found)}\n{summary(found)}\n")


if __name__ == "__main__":
    main()
