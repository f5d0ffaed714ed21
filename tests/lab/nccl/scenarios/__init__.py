"""The scenarios, by what is broken."""

from tests.lab.nccl.scenario import Scenario

from . import (
    at_once,
    gpus,
    healthy,
    neighbours,
    nics,
    plugins,
    processes,
    ras,
    settings,
    sockets,
    system,
    together,
    traffic,
    verbs,
)

SCENARIOS: tuple[Scenario, ...] = (
    *healthy.SCENARIOS,
    *sockets.SCENARIOS,
    *nics.SCENARIOS,
    *gpus.SCENARIOS,
    *plugins.SCENARIOS,
    *processes.SCENARIOS,
    *system.SCENARIOS,
    *settings.SCENARIOS,
    *verbs.SCENARIOS,
    *ras.SCENARIOS,
    *together.SCENARIOS,
    *traffic.SCENARIOS,
    *neighbours.SCENARIOS,
    *at_once.SCENARIOS,
)
