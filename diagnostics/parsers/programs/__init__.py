"""All that is not NCCL's own: what frameworks, launchers and devices say, and what the scan looks for to find it."""

from diagnostics.parsers.base import Pattern
from diagnostics.parsers.programs import (
    accelerators,
    devices,
    divergence,
    endings,
    exceptions,
    frameworks,
    killed,
    launchers,
    libraries,
    machines,
    rendezvous,
    restarts,
    schedulers,
    serving,
    statuses,
    successes,
    world,
)

PATTERNS: tuple[Pattern, ...] = (
    *accelerators.PATTERNS,
    *exceptions.PATTERNS,
    *serving.PATTERNS,
    *frameworks.PATTERNS,
    *divergence.PATTERNS,
    *rendezvous.PATTERNS,
    *restarts.PATTERNS,
    *launchers.PATTERNS,
    *killed.PATTERNS,
    *libraries.PATTERNS,
    *devices.PATTERNS,
    *endings.PATTERNS,
    *statuses.PATTERNS,
    *machines.PATTERNS,
    *schedulers.PATTERNS,
    *successes.PATTERNS,
    *world.PATTERNS,
)
LITERALS: tuple[str, ...] = tuple(dict.fromkeys(pattern.literal for pattern in PATTERNS))
