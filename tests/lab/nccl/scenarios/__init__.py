"""The scenarios, by what is broken."""

from tests.lab.nccl.scenario import Scenario

from . import adapters, gpus, healthy, plugins, processes, sockets

SCENARIOS: tuple[Scenario, ...] = (
    *healthy.SCENARIOS,
    *sockets.SCENARIOS,
    *adapters.SCENARIOS,
    *gpus.SCENARIOS,
    *plugins.SCENARIOS,
    *processes.SCENARIOS,
)
