"""The sources that an agent reads, one module each. The table is literal: one that is not in it does not exist."""

from collections.abc import Callable, Mapping

from diagnostics.agent.options import AgentOptions
from diagnostics.agent.sources.base import OpenSource
from diagnostics.agent.sources.filesystems import FileSystem
from diagnostics.agent.sources.host import Host
from diagnostics.agent.sources.nics import Nics
from diagnostics.agent.sources.ports import Ports
from diagnostics.agent.sources.processes import Processes

Opener = Callable[[AgentOptions, Processes], OpenSource]

SOURCES: Mapping[str, Opener] = {
    "ports": lambda options, _: Ports(options.sys / "class/infiniband"),
    "nics": lambda options, _: Nics(options.sys / "class/net"),
    "host": lambda options, _: Host(options.proc),
    "processes": lambda _, processes: processes,
}


def sources_of(options: AgentOptions, processes: Processes) -> Mapping[str, Callable[[], OpenSource]]:
    """How each source of an agent is opened, by its name; those of folders are one a folder."""
    machine = {name: (lambda opener=opener: opener(options, processes)) for name, opener in SOURCES.items()}
    folders = {f"filesystem {folder}": (lambda folder=folder: FileSystem(folder)) for folder in options.folders}
    return {**machine, **folders}
