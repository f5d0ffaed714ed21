"""What agents read of the nodes, as figures for whoever follows the run from afar: levels of GPUs and hosts. Pure."""

from dataclasses import dataclass, field

from diagnostics.agent.messages import Reading
from raybench.documents.run.node_samples import known_series
from raybench.execution.live.figures import slug
from raybench.trackers.base import Figures

INTERVAL_SECONDS = 5.0  # trackers draw hours, and some take so many calls a minute
MOST_VALUES = 200  # of a machine at a time: eight GPUs have about a hundred
_GROUPS = frozenset({"gpu", "host"})


@dataclass(kw_only=True)
class NodeFigures:
    """The machines of one run. ``started``: its begin on the command's monotonic clock, seconds."""

    started: float
    _levels: dict[str, dict[str, float]] = field(default_factory=dict)
    _told: dict[str, float] = field(default_factory=dict)

    def take(self, machine: str, reading: Reading, now: float, at: float) -> Figures | None:
        """The latest levels of a machine, where the last were given an interval ago; None in between.

        ``now``: on the command's monotonic clock; ``at``: wall-clock time. Counters are left out: by themselves they
        say nothing. What was not read in the interval is missing.
        """
        levels = self._levels.setdefault(machine, {})
        for name, value in reading.values.items():
            if _is_shown(name) and (name in levels or len(levels) < MOST_VALUES):
                levels[name] = value
        if not levels or now - self._told.setdefault(machine, now) < INTERVAL_SECONDS:
            return None
        self._told[machine], self._levels[machine] = now, {}
        return Figures(
            group=f"node.{slug(machine).replace('/', '-')}",
            axis="seconds",
            position=round(now - self.started),
            values={slug(name): value for name, value in levels.items()},
            at=at,
        )


def _is_shown(name: str) -> bool:
    series = known_series(name)
    return series is not None and series.group in _GROUPS and not series.is_counter
