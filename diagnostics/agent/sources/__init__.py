"""The sources that an agent reads, one module each. The table is literal: one that is not in it does not exist."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from diagnostics.agent.options import AgentOptions
from diagnostics.agent.sources.amd_gpus import AmdGpus, load_amdsmi
from diagnostics.agent.sources.base import OpenSource
from diagnostics.agent.sources.filesystems import FileSystem
from diagnostics.agent.sources.gpus import ERROR_INTERVALS, GpuErrors, Gpus, load_nvml
from diagnostics.agent.sources.host import Host
from diagnostics.agent.sources.kernel_log import KernelLog
from diagnostics.agent.sources.nccl_logs import LOG_INTERVAL_SECONDS, NcclLogs
from diagnostics.agent.sources.nics import Nics
from diagnostics.agent.sources.others import LOOK_INTERVALS, Others
from diagnostics.agent.sources.ports import Ports
from diagnostics.agent.sources.processes import Processes
from diagnostics.agent.sources.tcp_paths import TcpPaths
from diagnostics.agent.sources.tcp_peers import TcpPeers


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What sources are opened with. ``processes`` and ``logs`` may get more of them while the agent runs."""

    options: AgentOptions
    processes: Processes
    logs: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind:
    """How a source is opened. It is read each so many intervals, and no more often than each so many seconds."""

    open: Callable[[Surroundings], OpenSource]
    intervals: int = 1
    least_seconds: float = 0.0


SOURCES: Mapping[str, SourceKind] = {
    "ports": SourceKind(open=lambda given: Ports(given.options.sys / "class/infiniband")),
    "nics": SourceKind(open=lambda given: Nics(given.options.sys / "class/net")),
    "gpus": SourceKind(open=lambda _: Gpus(load_nvml())),
    "gpu errors": SourceKind(open=lambda _: GpuErrors(load_nvml()), intervals=ERROR_INTERVALS),
    "amd gpus": SourceKind(open=lambda _: AmdGpus(load_amdsmi())),
    "host": SourceKind(open=lambda given: Host(given.options.proc)),
    "tcp peers": SourceKind(open=lambda given: TcpPeers(given.options.proc)),
    "tcp paths": SourceKind(open=lambda given: TcpPaths(given.options.proc), least_seconds=1.0),
    "processes": SourceKind(open=lambda given: given.processes),
    "others": SourceKind(open=lambda given: Others(given.options.proc, given.processes), intervals=LOOK_INTERVALS),
    "kernel": SourceKind(open=lambda given: KernelLog(given.options.kernel_log)),
    "nccl": SourceKind(open=lambda given: NcclLogs(given.logs), least_seconds=LOG_INTERVAL_SECONDS),
}


def sources_of(given: Surroundings) -> Mapping[str, SourceKind]:
    """The sources of an agent by name; those of folders are one a folder."""
    folders = {f"filesystem {folder}": SourceKind(open=_opener(folder)) for folder in given.options.folders}
    return {**SOURCES, **folders}


def _opener(folder: Path) -> Callable[[Surroundings], OpenSource]:
    return lambda _: FileSystem(folder)
