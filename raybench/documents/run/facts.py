"""What nodes, ranks and trainings said of themselves, and what a run was asked for: the part that raybench reads.

A document keeps all of it as a table for people; who needs a value of it takes it from these types. None is unknown.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert

from raybench.documents.part import placed
from raybench.documents.quantity import Count

FactsType = TypeVar("FactsType", bound=Struct)


class GpuFacts(Struct, frozen=True):
    """A GPU as its driver names it."""

    name: str | None = None


class RdmaPort(Struct, frozen=True):
    """A port of an RDMA device. ``gbit``: its rate, Gbit/s; ``state``: ``ACTIVE`` where it is up."""

    device: str
    port: str = ""
    gbit: float = 0.0
    state: str = "unknown"
    link_layer: str = "unknown"


class TrafficCounters(Struct, frozen=True):
    """Bytes that a network device moved during the run."""

    sent_bytes: Count | None = None
    received_bytes: Count | None = None


class RankFacts(Struct, frozen=True):
    """What a rank said of itself. ``processor_wait``: ``counted`` where its own times are without that wait.

    ``device``: what it computed on (``cuda:0``); ``gpu_uuid``: of that GPU; ``visible_gpus``: how many it saw.
    """

    pid: str | int | None = None
    processor_wait: str | None = None
    visible_gpus: Count | None = None
    gpu_uuid: str | None = None
    device: str | None = None


class NodeFacts(Struct, frozen=True):
    """What a node said of itself.

    ``traffic`` by device, ``ranks`` by rank, ``interfaces`` by address, ``settings``: NCCL's variables as the node is
    configured. ``gpu_ids``: the GPUs that Ray granted; ``visible_devices``: its CUDA_VISIBLE_DEVICES.
    """

    gpus: tuple[GpuFacts, ...] | None = None
    gpu_ids: tuple[str | int, ...] | None = None
    visible_devices: str | None = None
    traffic: Mapping[str, TrafficCounters] | None = None
    ranks: Mapping[Count, RankFacts] | None = None
    interfaces: Mapping[str, str] | None = None
    settings: Mapping[str, str] | None = None
    rdma_ports: tuple[RdmaPort, ...] | None = None
    cpu_count: int | None = None
    hostname: str | None = None
    early_rank_host: bool | None = None  # the command was on this machine


class TrainingFacts(Struct, frozen=True):
    """What a training said of its model and device. ``gpu``: None on a CPU.

    ``expected_wire_bytes``: what a rank sends in a step, by formula. ``data``: what can be learned; None of random
    samples.
    """

    gpu: str | None = None
    dtype: str | None = None
    parameters: int | None = None
    tokens_per_sample: Count | None = None
    expected_wire_bytes: float | None = None
    gpu_utilization_unknown: str | None = None
    data: str | None = None
    training_samples: Count | None = None
    validation_samples: Count | None = None
    data_remark: str | None = None


class ReferenceFacts(Struct, frozen=True):
    """A training beside one process that computes the whole batch: how far apart they are, and may be."""

    max_relative_difference: float | None = None
    tolerance: float | None = None


class TrainingSettings(Struct, frozen=True):
    """Steps of a training: those before the timed ones, and the timed ones."""

    warmup_steps: int | None = None
    steps: int | None = None


class RunSettings(Struct, frozen=True):
    """What a run was asked for: how often operations are repeated. ``raybench.config`` has the meaning of each."""

    warmup: int | None = None
    iters: int | None = None
    blocks: int | None = None
    repeats: int | None = None
    training: TrainingSettings | None = None


def typed(kind: type[FactsType], content: Mapping[str, Any]) -> FactsType:
    """The part of a table that has a type. Raises msgspec.ValidationError; ``damage_of`` says that in words before."""
    return convert(dict(content), kind, strict=False)


def damage_of(kind: type[Struct], content: Mapping[str, Any], place: str) -> str | None:
    """What in a table is not of its type, with its place; None where all is well."""
    try:
        convert(dict(content), kind, strict=False)
    except ValidationError as error:
        return str(placed(error, place))
    return None
