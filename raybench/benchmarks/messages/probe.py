"""Whether a backend offers an operation: one smallest operation before anything is measured, one answer of all ranks.

Only what is refused for its arguments, before anything is sent, counts as "not offered", and a benchmark is then
skipped. A fault of the device or the network must never look like that: it ends the rank.
"""

import torch
import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments, Prepared, RankContext, UnsupportedError
from raybench.benchmarks.rank.recording import inside
from raybench.benchmarks.spec import BenchmarkSpec

_REFUSED = (
    "not support",
    "unsupported",
    "not implemented",
    "invalid scalar type",
    "cannot use reduceop",
    "invalid reduceop",
)
_FAULTS = (
    "nccl error",
    "cuda failure",
    "cuda error",
    "hip failure",
    "hip error",
    "rccl error",
    "toolchain",
    "transport/",
)

_LIBRARY = {"mlx": "MLX"}

# torch 2.8 brought AcceleratorError; before, "CUDA error" in the text tells
_BROKEN: tuple[type[Exception], ...] = (dist.DistError, getattr(torch, "AcceleratorError", dist.DistError))


def probe(context: RankContext, spec: BenchmarkSpec, collective: Collective) -> None:
    """Raises UnsupportedError, in every rank alike, for what the backend lacks; RuntimeError where ranks disagree.

    An average of integers is not even tried on gloo: it fails halfway, and what it leaves running in gloo's threads
    breaks or hangs an operation some benchmarks later (torch 2.13).
    """
    if context.backend == "gloo" and spec.reduce_op == "avg" and "int" in spec.dtype:
        raise UnsupportedError(f"gloo does not offer {spec.name} of {spec.dtype} with avg: it averages floats only")
    refusal = _refusal(context, spec, collective)
    what = f"{spec.name} of {spec.dtype}" + (f" with {spec.reduce_op}" if spec.reduce_op else "")
    refused = _ranks_refused(context, refusal is not None)
    if 0 < refused < context.world_size:
        here = f"refused it: {refusal}" if refusal else "ran it"
        raise RuntimeError(
            f"{context.backend} refuses {what} on {refused} of {context.world_size} ranks; rank {context.rank} {here}; "
            f"compare the versions of PyTorch and {_LIBRARY.get(context.backend, 'NCCL')} of all nodes"
        )
    if refusal is not None:
        raise UnsupportedError(f"{context.backend} does not offer {what}: {refusal}")


def prepared(
    context: RankContext, spec: BenchmarkSpec, collective: Collective, args: CollectiveArguments, buffers: Buffers
) -> Prepared:
    """The operation of this rank over these buffers, by torch.distributed or by what stands in for it."""
    if context.ring is None:
        return Prepared(call=collective.prepare(args, buffers))
    found: Prepared = context.ring.prepare(spec.name, args, buffers)
    return found


def is_refusal(error: Exception) -> bool:
    """Whether an error says that the backend does not take these arguments, rather than that something broke."""
    text = str(error).lower()
    if isinstance(error, _BROKEN) or any(word in text for word in _FAULTS):
        return False
    return any(word in text for word in _REFUSED)


def _refusal(context: RankContext, spec: BenchmarkSpec, collective: Collective) -> str | None:
    args = CollectiveArguments(
        rank=context.rank,
        world_size=context.world_size,
        elements=context.world_size,
        dtype=spec.dtype,
        reduce_op=spec.reduce_op,
        root=spec.root,
    )
    send, receive = collective.lengths(args)
    dtype = getattr(torch, spec.dtype)
    try:
        buffers = Buffers(
            send=torch.zeros(send, dtype=dtype, device=context.device),
            receive=torch.zeros(receive, dtype=dtype, device=context.device),
        )
        operation = prepared(context, spec, collective, args, buffers)
        operation.load()
        operation.call()
        if context.device.type == "cuda":  # gpu: collectives-1
            torch.cuda.synchronize(context.device)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        if not is_refusal(error):
            raise
        return (str(error).strip().splitlines() or [type(error).__name__])[0]
    return None


def _ranks_refused(context: RankContext, refused: bool) -> int:
    """How many ranks refused, the same number in every rank.

    Counted in the store, not by a collective: where one rank refused, another may still wait in the operation that was
    tried, and a collective here would be taken for its partner.
    """
    key = f"raybench/probe/{context.progress.read().benchmark}"
    context.store.add(f"{key}/refused", int(refused))
    if context.store.add(f"{key}/ranks", 1) == context.world_size:
        context.store.set(f"{key}/decided", str(context.store.add(f"{key}/refused", 0)))
    with inside("store"):
        decided = int(context.store.get(f"{key}/decided"))
    if context.store.add(f"{key}/read", 1) == context.world_size:
        context.store.set(f"{key}/all-read", "1")
    if context.rank == 0:  # it holds the store, and may be about to end
        with inside("store"):
            context.store.get(f"{key}/all-read")
    return decided
