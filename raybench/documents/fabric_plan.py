"""What a fabric test of a size takes, before anything is measured: ``raybench fabric plan --json``.

Schema ``raybench.fabric-plan/1``: keys are added, never renamed or removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from raybench.documents.plain import Json, PlainDocument, PlainPart
from raybench.verdicts import Verdict, exit_code_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopePlan(PlainPart):
    """The rounds of a scope and the time of their tests. ``of_all_pairs``: its pairs as a share of all."""

    scope: str
    rounds: int
    pairs: int
    of_all_pairs: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSimulation(PlainPart):
    """How well planted faults are found by the chosen scope. ``extra_rounds``: trials by rounds after the scan."""

    trials: int
    exact: int
    most_extra_rounds_allowed: int
    extra_rounds: Mapping[str, int]
    planted_hosts: int
    planted_links: int
    scan_rounds: int
    basis: str

    def contradiction(self) -> str | None:
        """Whether no more faults were found than trials were made."""
        return None if 0 <= self.exact <= self.trials else f"{self.exact} of {self.trials} trials found exactly"


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPlan(PlainDocument):
    """The plan of every scope; ``simulation`` is of the chosen ``scope``, None where it was not asked for."""

    SCHEMA: ClassVar[str] = "raybench.fabric-plan/1"
    nodes: int
    leaf_size: int | None
    leaves: int | None
    scope: str
    seconds_per_round: float
    scopes: tuple[ScopePlan, ...]
    simulation: FabricSimulation | None = None

    @property
    def verdict(self) -> Verdict | None:
        """Whether the simulation found exactly what was planted, in every trial; None where nothing was simulated."""
        if self.simulation is None:
            return None
        return "ok" if self.simulation.exact == self.simulation.trials else "critical"

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return exit_code_of(self.verdict)

    def to_json(self) -> Json:
        """With the simulation where there was one."""
        content = PlainDocument.to_json(self)
        if self.simulation is None:
            del content["simulation"]
        return content
