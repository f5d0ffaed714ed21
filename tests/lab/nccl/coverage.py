"""Which rules of the diagnosis have a row that makes them speak and a near miss that must not, read from the rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diagnostics.rules import RULE_IDS

from .scenario import Scenario

_PLUGIN = "its lines are a plugin's own, and no plugin of a vendor is built here"
_FRAMEWORK = "its lines are PyTorch's, which is not run here"
_BENCHMARK = "its lines are those of a benchmark or a training program"
# Rules that no log of the library alone can trigger here, and why.
OUT_OF_REACH = {
    "net-plugin-provider-tcp": _PLUGIN,
    "gdr-disabled-by-plugin": _PLUGIN,
    "host-settings": "its lines are RCCL's",
    "collective-mismatch": _FRAMEWORK,
    "watchdog-timeout": _FRAMEWORK,
    "straggler": _FRAMEWORK,
    "low-speedup": _BENCHMARK,
    "sync-overhead": _BENCHMARK,
    "sharp-unavailable": _PLUGIN,
    "unclassified-warning": "a warning of NCCL's that is in no table would be a gap to close",
    "collective-slow": "the emulation has no speed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRows:
    """Names of the rows in which a rule has to speak, and of those in which it must not."""

    rule: str
    fires: tuple[str, ...]
    near_misses: tuple[str, ...]

    @property
    def lacks(self) -> str:
        """What is missing: ``fires``, ``near miss``, both, or nothing."""
        named = (("fires", self.fires), ("near miss", self.near_misses))
        return "" if self.rule in OUT_OF_REACH else ", ".join(name for name, rows in named if not rows)


def rows_by_rule(scenarios: Sequence[Scenario]) -> list[RuleRows]:
    """A line for each rule, in the order of the rules."""
    return [
        RuleRows(
            rule=rule,
            fires=tuple(row.name for row in scenarios if rule in (row.verdict.top, *row.verdict.also)),
            near_misses=tuple(row.name for row in scenarios if rule in (*row.verdict.never, *row.verdict.silent)),
        )
        for rule in RULE_IDS
    ]


def table(scenarios: Sequence[Scenario]) -> Iterator[str]:
    """The lines of ``python -m tests.lab.nccl --rules``."""
    yield f"{'rule':28}{'fires':>6}{'near misses':>12}  of them the first"
    for rows in rows_by_rule(scenarios):
        first = " / ".join(names[0] for names in (rows.fires, rows.near_misses) if names)
        note = f"LACKS {rows.lacks}" if rows.lacks else OUT_OF_REACH.get(rows.rule, first)
        yield f"{rows.rule:28}{len(rows.fires):6}{len(rows.near_misses):12}  {note}"
