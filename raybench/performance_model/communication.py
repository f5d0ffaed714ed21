"""What data-parallel training sends in one step: each collective with its size, from the shapes of the parameters.

A step is one optimizer step: ``accumulation`` micro-batches, then the update. Sizes S are those of nccl-tests (the
whole gathered or scattered message), so that they can be compared with what a profiler or NCCL's log counts.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from raybench.errors import UsageError
from raybench.performance_model.layout import Group, Layout, Network, Operation, wire_factor

Phase = Literal["forward", "backward"]
Shape = tuple[int, ...]

# torch.distributed: _DEFAULT_FIRST_BUCKET_BYTES, and DistributedDataParallel's bucket_cap_mb of 25.
DDP_FIRST_BUCKET_BYTES = 2**20
DDP_BUCKET_BYTES = 25 * 2**20
# Pieces into which software that overlaps tensor parallelism cuts a matrix product and its collective (Transformer
# Engine's default).
_PIECES = 4
# Of what a slow program sends beside computation, the share of its time that is saved: NCCL's kernels take SMs, memory
# bandwidth and power from it. On four H100, A100, MI250 and MI210 computation with messages beside it takes 1.19 times
# as long as alone, and one after the other 1.10 times that (arXiv 2507.03114, means of the abstract): 0.12 of 0.31 is
# saved. Two nodes of eight B200 take 29 ms longer than one for the same samples (MLPerf v5.1, University of Florida's
# llama31_8b, gradients and weights beside the only micro-batch), of some 65 ms that they send.
SAVED = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One collective of a step, done ``count`` times. ``message_bytes`` is S of nccl-tests.

    ``blocking``: the next computation needs it, so that it cannot be hidden. ``overlappable``: software that cuts the
    matrix product before or after it into pieces, and sends one while it computes the next, hides all but one piece
    (Megatron-LM's ``--tp-comm-overlap``, PyTorch's async TP). ``least_times``, ``most_times``: how many times as long
    as the links alone it takes in the fastest and in the slowest step.
    """

    operation: Operation
    phase: Phase
    message_bytes: int
    group: Group
    count: int = 1
    blocking: bool = False
    overlappable: bool = False
    least_times: float = 1.0
    most_times: float = 1.0

    def times(self, count: int) -> "Message":
        """The same collective, ``count`` times as often."""
        return replace(self, count=self.count * count)

    @property
    def total_bytes(self) -> int:
        """S of all of them."""
        return self.message_bytes * self.count

    @property
    def wire_bytes(self) -> float:
        """Bytes that each rank sends: S times the factor that makes busbw of algbw."""
        return self.total_bytes * wire_factor(self.operation, self.group.ranks)

    def seconds(self, network: Network) -> float:
        """Time of all of them, one after the other."""
        return self.count * network.seconds(self.operation, self.message_bytes, self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Everything that one rank takes part in during one step."""

    messages: tuple[Message, ...]

    @property
    def count(self) -> int:
        """Collectives a step."""
        return sum(message.count for message in self.messages)

    @property
    def message_bytes(self) -> int:
        """Sum of the S of all collectives."""
        return sum(message.total_bytes for message in self.messages)

    @property
    def wire_bytes(self) -> float:
        """Bytes that each rank sends in a step."""
        return sum(message.wire_bytes for message in self.messages)

    def seconds(self, network: Network, phase: Phase | None = None) -> float:
        """Time of all collectives, or of those of one phase, one after the other and with nothing beside them."""
        return sum(one.seconds(network) for one in self.messages if phase in (None, one.phase))

    @property
    def blocking(self) -> "Traffic":
        """Collectives that computation cannot hide."""
        return Traffic(messages=tuple(one for one in self.messages if one.blocking))

    def least_waiting_seconds(self, network: Network) -> float:
        """Least time that blocking collectives add: of one that can be cut into pieces, that of a single piece."""
        return sum(
            one.seconds(network) * one.least_times / (_PIECES if one.overlappable else 1)
            for one in self.blocking.messages
        )

    def most_waiting_seconds(self, network: Network) -> float:
        """Most time that blocking collectives add."""
        return sum(one.seconds(network) * one.most_times for one in self.blocking.messages)

    @property
    def beside(self) -> "Traffic":
        """Collectives that run beside computation."""
        return Traffic(messages=tuple(one for one in self.messages if not one.blocking))

    def shortest_seconds(self, network: Network, phase: Phase) -> float:
        """Time of the shortest collective of a phase; of the backward pass, of the shortest that moves gradients."""
        chosen = [one for one in self.messages if one.phase == phase]
        reductions = [one for one in chosen if one.operation != "all_gather"]
        return min((one.seconds(network) / one.count for one in reductions or chosen), default=0.0)


def ddp_buckets(
    gradient_bytes: Sequence[int], *, first: int = DDP_FIRST_BUCKET_BYTES, limit: int = DDP_BUCKET_BYTES
) -> tuple[int, ...]:
    """Sizes in bytes of DDP's buckets. Gradients come in the order in which they are ready: parameters reversed.

    The gradient that fills a bucket closes it (c10d compute_bucket_assignment_by_size), so a bucket may exceed its
    limit; the first has a limit of its own. In the very first step all gradients are one bucket, since DDP builds the
    buckets from the order seen in that step.
    """
    sizes: list[int] = []
    current = 0
    for gradient in gradient_bytes:
        current += gradient
        if current >= (limit if sizes else first):
            sizes.append(current)
            current = 0
    return tuple([*sizes, current] if current else sizes)


def ddp_traffic(
    shapes: Sequence[Shape],
    layout: Layout,
    *,
    gradient_bytes: int = 4,
    accumulation: int = 1,
    no_sync: bool = True,
    bucket_bytes: int = DDP_BUCKET_BYTES,
    group: Group | None = None,
) -> Traffic:
    """DistributedDataParallel: one all_reduce a bucket, in the last micro-batch only with ``no_sync``, else in each.

    ``shapes``: of the trainable parameters, in the module's order. ``gradient_bytes``: of one element. ``group``: the
    ranks that reduce; None: all that hold the same part of the model.
    """
    group = group or layout.sharing
    if group.ranks < 2:
        return Traffic(messages=())
    first = DDP_FIRST_BUCKET_BYTES if bucket_bytes == DDP_BUCKET_BYTES else bucket_bytes
    sizes = ddp_buckets(
        [math.prod(shape) * gradient_bytes for shape in reversed(shapes)], first=first, limit=bucket_bytes
    )
    times = 1 if no_sync else accumulation
    return Traffic(messages=_merged("all_reduce", "backward", sizes, group, times))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardUnit:
    """The parameters of one ``fully_shard`` call, by shape. ``trainable``: those that are trained; None: all.

    ``stays_gathered``: not resharded after the forward pass, as FSDP2 treats the root module.
    """

    shapes: tuple[Shape, ...]
    trainable: tuple[Shape, ...] | None = None
    stays_gathered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """How shards are gathered and reduced. Bytes are of one element as sent (``param_dtype``, ``reduce_dtype``).

    - full: each unit is gathered in the forward and again in the backward pass, then its gradients are reduce-scattered
    - grad-op (``reshard_after_forward=False``): gathered once, in the forward pass
    - hybrid: as full within a node, then each rank's shard of the gradients is all-reduced over the nodes
    - state (ZeRO-1 and 2): gradients are reduce-scattered; trained weights are gathered after the update, once a step

    All but the last do so in every micro-batch; with ``no_sync`` (``set_requires_gradient_sync(False)``) gradients are
    reduced in the last micro-batch only.
    """

    strategy: Literal["full", "grad-op", "hybrid", "state"] = "full"
    parameter_bytes: float = 2
    gradient_bytes: int = 4
    accumulation: int = 1
    no_sync: bool = False


def fsdp_traffic(
    units: Sequence[ShardUnit], layout: Layout, sharding: Sharding, *, group: Group | None = None
) -> Traffic:
    """Collectives of FSDP2 (``fully_shard``). Each parameter's first dimension is padded to a multiple of the ranks."""
    shards = group or (layout.sharing_in_node if sharding.strategy == "hybrid" else layout.sharing)
    reductions = 1 if sharding.no_sync else sharding.accumulation
    messages: list[Message] = []
    for unit, alike in Counter(units).items():
        trainable = unit.shapes if unit.trainable is None else unit.trainable
        held = trainable if sharding.strategy == "state" else unit.shapes
        gathered = int(_padded_elements(held, shards.ranks) * sharding.parameter_bytes)
        reduced = _padded_elements(trainable, shards.ranks) * sharding.gradient_bytes
        gathers = alike * (1 if sharding.strategy == "state" else sharding.accumulation)
        messages += _merged("all_gather", "forward", [gathered], shards, gathers)
        if sharding.strategy in ("full", "hybrid") and not unit.stays_gathered:
            messages += _merged("all_gather", "backward", [gathered], shards, alike * sharding.accumulation)
        messages += _merged("reduce_scatter", "backward", [reduced], shards, alike * reductions)
        if sharding.strategy == "hybrid":
            messages += _merged(
                "all_reduce", "backward", [reduced // shards.ranks], layout.replicas, alike * reductions
            )
    return Traffic(messages=joined(messages))


def _padded_elements(shapes: Iterable[Shape], ranks: int) -> int:
    return sum(math.ceil(shape[0] / ranks) * ranks * math.prod(shape[1:]) for shape in shapes)


def _merged(operation: Operation, phase: Phase, sizes: Iterable[int], group: Group, times: int) -> tuple[Message, ...]:
    """Messages of the given sizes, each ``times`` times; none where there is nothing to send, or nobody to send to."""
    return joined(
        Message(operation=operation, phase=phase, message_bytes=size, group=group, count=times)
        for size in sizes
        if size and group.ranks > 1
    )


def joined(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Equal collectives counted together, in order of their first."""
    counts: dict[Message, int] = {}
    for one in messages:
        key = one if one.count == 1 else replace(one, count=1)
        counts[key] = counts.get(key, 0) + one.count
    return tuple(replace(key, count=count) for key, count in counts.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSeconds:
    """Bounds of a step's time: ``least`` hides all communication that can be hidden, ``most`` hides none.

    ``bubble``: seconds that a pipeline idles in the most, ``least_bubble`` in the least.
    """

    compute: float
    communication: float
    least: float
    most: float
    bubble: float = 0.0
    least_bubble: float = 0.0

    @property
    def exposed_least(self) -> float:
        """Communication that is exposed in any case."""
        return self.least - self.compute - self.least_bubble


def step_seconds(
    compute: float,
    traffic: Traffic,
    network: Network,
    *,
    forward_share: float = 1 / 3,
    bubble: float = 0.0,
    beside: float = 0.0,
    after: bool = False,
) -> StepSeconds:
    """Bounds of a step from the time of its computation and its collectives.

    Most: no overlap at all, but beside the share ``beside`` of each pass: that of the last micro-batch, where a program
    is told to send while it computes that, which saves ``SAVED`` of the time. Least: each phase takes the longer of its
    computation and its communication, plus one collective that is always exposed: the first gather of the forward pass,
    before which nothing can be computed, and the last reduction of the backward pass, after which nothing is left to
    compute; with ``after`` all of both, which a program is told not to overlap. The shortest of each phase counts.
    Blocking collectives are exposed in both; in the least one, only a piece of those that can be cut. A pipeline idles
    ``bubble`` seconds per second of computation and blocking communication.
    ``forward_share``: a third, 2 of 6 operations per weight.
    """
    if compute < 0 or not 0 <= forward_share <= 1:
        raise UsageError(f"a step cannot compute for {compute:g} s with {forward_share:g} of it forward")
    phases: tuple[tuple[Phase, float], ...] = (
        ("forward", compute * forward_share),
        ("backward", compute * (1 - forward_share)),
    )
    hidden, waited = traffic.beside, traffic.most_waiting_seconds(network)
    shortest = traffic.least_waiting_seconds(network)
    idle, least_idle = bubble * (compute + waited), bubble * (compute + shortest)
    least = sum(
        own + hidden.seconds(network, phase)
        if after
        else max(own + hidden.shortest_seconds(network, phase), hidden.seconds(network, phase))
        for phase, own in phases
    )
    exposed = sum(
        max(hidden.shortest_seconds(network, phase), sent - SAVED * min(sent, beside * own))
        for phase, own in phases
        for sent in [hidden.seconds(network, phase)]
    )
    return StepSeconds(
        compute=compute,
        communication=traffic.seconds(network),
        least=least + shortest + least_idle,
        most=compute + waited + exposed + idle,
        bubble=idle,
        least_bubble=least_idle,
    )
