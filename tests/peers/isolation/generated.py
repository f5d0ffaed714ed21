"""Clusters with planted faults, measured group by group as a run would be, from seeded random numbers."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from raybench.peers.isolation.judgement import Answer
from raybench.peers.isolation.reading import Reading
from raybench.peers.isolation.steps import Partners, next_group, partners_of
from raybench.peers.isolation.suspect import Suspect

BLOCKS = 9


@dataclass(kw_only=True)
class FakeCluster:
    """Nodes, those that are slow with their share, and slow paths. A pair is as slow as the worst of its parts."""

    count: int
    bad: Mapping[str, float] = field(default_factory=dict)
    slow_alone: Mapping[str, float] = field(default_factory=dict)
    bad_paths: Mapping[frozenset[str], float] = field(default_factory=dict)
    later: Mapping[str, float] = field(default_factory=dict)  # what is bad once the run is over
    breaking: frozenset[str] = frozenset()
    noise: float = 0.05
    seed: int = 0
    measured: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._source = random.Random(self.seed)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"node{number:02}" for number in range(1, self.count + 1))

    def reading(self, nodes: Sequence[str]) -> Reading:
        self.measured.append(tuple(nodes))
        broken = [one for one in nodes if one in self.breaking]
        if broken:
            return Reading(nodes=tuple(nodes), broke=f"node {broken[0]}: stopped", blamed=tuple(broken))
        pairs = {pair: self._blocks(self._share(pair)) for pair in combinations(sorted(nodes), 2)}
        speeds = {node: self._blocks(self.slow_alone.get(node, 1.0)) for node in nodes}
        return Reading(nodes=tuple(nodes), pairs=pairs, speeds=speeds)

    def isolate(self, suspect: Suspect, suspects: Sequence[Suspect]) -> Answer:
        first = self.reading(self.nodes)
        self.bad = {**self.bad, **self.later}
        partners: Partners = partners_of(suspect, self.nodes, suspects)
        beside: list[Reading] = []
        without = None
        while True:
            group, answer = next_group(suspect, partners, beside, without, first)
            if group is None:
                return answer
            assert (suspect.node in group.nodes) == group.with_suspect
            if group.with_suspect:
                beside.append(self.reading(group.nodes))
            else:
                without = self.reading(group.nodes)

    def _share(self, pair: tuple[str, str]) -> float:
        return min(*(self.bad.get(node, 1.0) for node in pair), self.bad_paths.get(frozenset(pair), 1.0))

    def _blocks(self, share: float) -> tuple[float, ...]:
        of_pair = self._source.lognormvariate(0, self.noise / 2)
        return tuple(10 * share * of_pair * self._source.lognormvariate(0, self.noise) for _ in range(BLOCKS))
