"""The command lines of a test, server's and client's, for the agent that runs them. Pure.

``{port}`` and ``{peer}`` are filled in by the agent. Nothing goes through a shell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raybench.preflight.fabric.ends import End, Port, choose_gid
from raybench.preflight.fabric.settings import FabricSettings

EFA_DRIVER = "efa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a host runs one rail's tests. ``keep_from``: what its output is kept from when all went well."""

    kind: str  # "process", or "stream" for our own TCP transfer
    server: tuple[str, ...] = ()
    client: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    keep_from: str = ""
    counters: tuple[str, ...] = ()
    gpu: int | None = None  # whose memory is used


def command_for(tool: str, end: End, port: Port, settings: FabricSettings) -> Command:
    """The commands of a host for one rail, with the tool decided on."""
    if tool == "tcp":
        return Command(kind="stream", counters=port.counters)
    if tool == "iperf3":
        return _iperf(end, port, settings)
    return _perftest(tool, end, port, settings)


def _iperf(end: End, port: Port, settings: FabricSettings) -> Command:
    program = end.tools["iperf3"].path
    time = ("-t", str(settings.seconds), "-P", str(settings.streams))
    return Command(
        kind="process",
        server=(program, "-s", "-1", "-p", "{port}", "-B", end.address or ""),
        client=(program, "-c", "{peer}", "-p", "{port}", *time, "-i", "0", "--json"),
        counters=port.counters,
    )


def _perftest(tool: str, end: End, port: Port, settings: FabricSettings) -> Command:
    program = end.tools[tool]
    gpu = nearest_gpu(port, end.gpus) if settings.gpu_memory != "off" else None
    memory = gpu_options(program.options, gpu, end.gpu_vendor) if gpu is not None else ()
    words = [program.path, "-d", port.name, "-i", str(port.number), "-p", "{port}", "-F"]
    words += _size(tool, settings) + _addressing(port, settings, end) + list(memory)
    return Command(
        kind="process",
        server=tuple(words),
        client=(*words, "{peer}"),
        environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if memory and end.gpu_vendor == "nvidia" else {},
        keep_from="#bytes",
        counters=port.counters,
        gpu=gpu if memory else None,
    )


def _size(tool: str, settings: FabricSettings) -> list[str]:
    if tool == "ib_write_lat":  # with -D it would give the average alone
        return ["-n", str(settings.iterations), "-s", str(settings.latency_bytes)]
    pairs = ["-q", str(settings.queue_pairs), "--report_gbits"]
    return ["-D", str(settings.seconds), "-s", str(settings.message_bytes), *pairs]


def _addressing(port: Port, settings: FabricSettings, end: End) -> list[str]:
    words: list[str] = []
    index = gid_index(port, int(end.options.get("fabric_gid_index", settings.gid_index)))
    if index is not None:
        words += ["-x", str(index)]
    if port.driver == EFA_DRIVER:  # EFA knows no RC
        words += ["-c", "SRD"]
    if port.iwarp:  # it cannot exchange queue pairs by hand
        words += ["-R"]
    if settings.traffic_class >= 0:
        words += [f"--tclass={settings.traffic_class}"]
    if settings.service_level >= 0:
        words += ["-S", str(settings.service_level)]
    return words


def gid_index(port: Port, wanted: int) -> int | None:
    """The GID index to ask for: the user's, 0 on EFA, the best of RoCE; None on InfiniBand, which needs none."""
    if wanted >= 0:
        return wanted
    if port.driver == EFA_DRIVER:
        return 0
    gid = choose_gid(port.gids) if port.ethernet else None
    return gid.index if gid is not None else None


def gpu_options(options: frozenset[str], gpu: int, vendor: str = "nvidia") -> tuple[str, ...]:
    """How this build of the tool takes memory of a GPU, DMA-BUF before peer memory; () where it is not built in.

    ``--use_cuda`` and ``--use_rocm`` must come first: perftest refuses the other way round.
    """
    take = _TAKE[vendor][0]
    if take not in options:
        return ()
    dmabuf = f"{take}_dmabuf"
    return (f"{take}={gpu}", *([dmabuf] if dmabuf in options else []))


def gpu_memory_way(options: frozenset[str], vendor: str = "nvidia") -> str:
    """How this build of the tool reaches GPU memory, in words, as ``gpu_options`` chooses; empty where it cannot."""
    take, without = _TAKE[vendor]
    if take not in options:
        return ""
    return "DMA-BUF" if f"{take}_dmabuf" in options else f"{without} (this perftest knows no {take}_dmabuf)"


# By the GPUs' vendor: perftest's option, and what registers their memory without DMA-BUF.
_TAKE = {"nvidia": ("--use_cuda", "nvidia-peermem"), "amd": ("--use_rocm", "amdgpu's peer memory")}


def nearest_gpu(port: Port, gpus: Sequence[str]) -> int | None:
    """The GPU that shares most of its PCI path with the NIC; the first of equals; None without a GPU or a path."""
    if not gpus or port.pci is None:
        return None
    nic = port.pci.path.split("/")
    return max(range(len(gpus)), key=lambda index: (_shared(nic, gpus[index].split("/")), -index))


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
