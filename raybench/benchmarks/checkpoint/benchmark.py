"""The checkpoint benchmark of one rank: save and load a sharded model with its optimizer, place by place."""

import contextlib
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save, save
from torch.distributed.tensor import DTensor

from raybench.benchmarks.base import RankContext
from raybench.benchmarks.checkpoint.manifest import MANIFEST, CheckpointError
from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.checkpoint.record import CheckpointRecord
from raybench.benchmarks.checkpoint.storage import ManifestReader, ManifestWriter, read_manifest, total_bytes
from raybench.benchmarks.checkpoint.stores import open_store, probe
from raybench.benchmarks.checkpoint.stores.store import Store, StoreError, call_with_timeout
from raybench.benchmarks.rank.recording import inside
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.models.trainable import built, trainable_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.strategies import Shards, materialise, mesh_of

State = dict[str, torch.Tensor]
_FAILURES = (StoreError, CheckpointError, CheckpointException, OSError)


def run(context: RankContext, spec: BenchmarkSpec) -> Generator[CheckpointRecord, None, int]:
    """Yield this rank's record of each place, layout and mode. A place that fails does not stop the others."""
    options: CheckpointOptions = spec.options
    context.progress.enter("preparing buffers")
    with inside("new_group"):
        group = dist.new_group(backend="gloo")  # a save that goes on in the background must not meet other operations
    state = sharded_state(context, options)
    name = _agreed_name(context)
    number = 0
    for place in options.to:
        store, refused = _opened(context, options, place, f"{name}/{number}")
        for layout in options.layouts:
            for mode in options.modes:
                context.progress.point(number)
                label = options.labels()[number]
                number += 1
                if store is None or refused:
                    yield CheckpointRecord(label=label, failed=refused)
                    continue
                case = Case(context, options, store, group, f"{name}-{number}", verify=spec.verify)
                held = state if layout == "sharded" else full_state(context, state)
                yield from case.measured(label, held, mode, layout)
    return 0


def sharded_state(context: RankContext, options: CheckpointOptions) -> State:
    """A model sharded over all ranks, and its Adam moments and step counts: what a training run has to keep."""
    training = TrainingOptions(model=options.model, seed=options.seed)
    model = built(trainable_of(training), context.device)
    shards = Shards(mesh_of(context, training), model, training, "float32")
    materialise(model, context.device, training)
    state: State = {}
    for name, parameter in shards.plain.named_parameters():
        whole = parameter.detach()
        state[f"model.{name}"] = whole
        state[f"optimizer.exp_avg.{name}"] = whole * 0.5
        state[f"optimizer.exp_avg_sq.{name}"] = whole * whole
    return state


def full_state(context: RankContext, state: State) -> State:
    """The same gathered in rank 0, on its CPU; nothing in the others."""
    gathered = {}
    for name, tensor in state.items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if context.rank == 0:
            gathered[name] = whole.cpu()
    return gathered


def _agreed_name(context: RankContext) -> str:
    key = f"raybench/checkpoint/{context.progress.read().benchmark}/name"
    if context.rank == 0:
        context.store.set(key, f"raybench-{secrets.token_hex(4)}")
    with inside("store"):
        return context.store.get(key).decode()


def _opened(context: RankContext, options: CheckpointOptions, place: str, key: str) -> tuple[Store | None, str | None]:
    """This rank's store; or why it cannot be used, the same reason in every rank."""
    store, reason = None, ""
    try:
        store = call_with_timeout(lambda: _probed(options, place), options.limit_seconds, place)
    except StoreError as error:
        reason = f"rank {context.rank}: {error}"
    return store, shared_reason(context, f"{key}/open", reason)


def _probed(options: CheckpointOptions, place: str) -> Store:
    store = open_store(place, endpoint=options.endpoint, limit_seconds=options.limit_seconds)
    probe(store)
    return store


def shared_reason(context: RankContext, key: str, reason: str) -> str | None:
    """The first rank's reason of all ranks', or None where no rank has one. Every rank must call it."""
    context.store.set(f"{key}/{context.rank}", reason)
    with inside("store"):
        reasons = [context.store.get(f"{key}/{rank}").decode() for rank in range(context.world_size)]
    dist.barrier()  # rank 0 holds the store
    return next((one for one in reasons if one), None)


class Case:
    """One place, layout and mode: saved and loaded a few times."""

    def __init__(
        self, context: RankContext, options: CheckpointOptions, store: Store, group: Any, name: str, *, verify: bool
    ) -> None:
        self._context, self._options, self._store = context, options, store
        self._group, self._name, self._verify = group, name, verify
        self._blocked: list[float] = []
        self._durable: list[float] = []
        self._load_seconds: list[float] = []
        self._stored = 0

    def measured(self, label: str, state: State, mode: str, layout: str) -> Generator[CheckpointRecord, None, None]:
        """This rank's record, and before it, after each repetition, what there is so far."""
        wrong, failed, folder = 0, None, ""
        for repeat in range(self._options.saves):
            folder = f"{self._name}-{repeat}"
            differ, failed = self._once(state, folder, mode, whole=layout == "full")
            wrong += differ
            if failed is not None:
                break
            if repeat < self._options.saves - 1:
                yield self._record(label, state, wrong, folder, interim=True)
        yield self._record(label, state, wrong, folder, failed)

    def _record(
        self, label: str, state: State, wrong: int, folder: str, failed: str | None = None, *, interim: bool = False
    ) -> CheckpointRecord:
        return CheckpointRecord(
            label=label,
            blocked_seconds=tuple(self._blocked),
            durable_seconds=tuple(self._durable),
            load_seconds=tuple(self._load_seconds),
            tensor_bytes=total_bytes([local(one) for one in state.values()]),
            stored_bytes=self._stored,
            wrong_elements=wrong,
            verified=self._verify and failed is None,
            failed=failed,
            interim=interim,
            kept=f"{self._store.where}/{folder}" if self._options.keep and failed is None else None,
        )

    def _once(self, state: State, folder: str, mode: str, *, whole: bool) -> tuple[int, str | None]:
        """Save, load and compare. Returns how many elements differ, and why it failed, in every rank alike."""
        self._context.progress.enter("timing")
        dist.barrier()
        failed = self._shared(f"{folder}/save", partial(self._save, state, folder, mode, whole=whole))
        wrong = 0
        if failed is None:
            self._context.progress.enter("verifying")
            copy = {name: torch.empty_like(tensor) for name, tensor in state.items()}
            failed = self._shared(f"{folder}/load", partial(self._load, copy, folder, whole=whole))
            wrong = differing(state, copy) if self._verify and failed is None else 0
        dist.barrier()
        self._remove(folder)
        return wrong, failed

    def _shared(self, key: str, work: Callable[[], None]) -> str | None:
        """Do the work; why it failed, the same in every rank, or None."""
        reason = ""
        try:
            work()
        except _FAILURES as error:
            reason = reason_of(error, self._context.rank)
        return shared_reason(self._context, f"raybench/checkpoint/{key}", reason)

    def _save(self, state: State, folder: str, mode: str, *, whole: bool) -> None:
        if whole and self._context.rank != 0:
            return
        writer = ManifestWriter(self._store, folder, rank=self._context.rank, compression=self._options.compression)
        settings: dict[str, Any] = {"storage_writer": writer, "process_group": None if whole else self._group}
        begin = time.perf_counter()
        if mode == "async":
            pending = _in_background(state, writer) if whole else async_save(state, **settings)
            self._blocked.append(time.perf_counter() - begin)
            _result(pending)
        else:
            save(state, no_dist=whole, **settings)
            self._blocked.append(time.perf_counter() - begin)
        self._durable.append(time.perf_counter() - begin)
        self._stored = writer.stored_bytes

    def _load(self, state: State, folder: str, *, whole: bool) -> None:
        begin = time.perf_counter()
        manifest = self._manifest(folder)
        if whole and self._context.rank != 0:
            return
        reader = ManifestReader(self._store, folder, manifest)
        load(state, storage_reader=reader, process_group=None if whole else self._group, no_dist=whole)
        if self._context.device.type == "cuda":  # gpu: checkpoint
            torch.cuda.synchronize(self._context.device)
        self._load_seconds.append(time.perf_counter() - begin)

    def _manifest(self, folder: str) -> bytes:
        """Read by rank 0 and told to all: on a disk of its own, a node sees only its own ranks' files."""
        key = f"raybench/checkpoint/{folder}/manifest"
        if self._context.rank == 0:
            try:
                self._context.store.set(key, read_manifest(self._store, folder).decode())
            except CheckpointError:
                self._context.store.set(key, "")
                raise
        with inside("store"):
            found = self._context.store.get(key)
        if not found:
            raise CheckpointError("rank 0 found no manifest")
        return bytes(found)

    def _remove(self, folder: str) -> None:
        """Leave nothing behind, unless it is to be kept."""
        if self._options.keep:
            return
        for name, ranks in ((f"rank-{self._context.rank}.bin", None), (MANIFEST, 0)):
            if ranks in (None, self._context.rank):
                with contextlib.suppress(StoreError):
                    self._store.remove(f"{folder}/{name}")
            dist.barrier()


def _in_background(state: State, writer: ManifestWriter) -> "Future[Any]":
    """Save what one rank holds by itself: copied first, so that training may go on changing it."""
    copy = {name: tensor.clone() for name, tensor in state.items()}
    pool = ThreadPoolExecutor(max_workers=1)
    pending = pool.submit(save, copy, storage_writer=writer, no_dist=True)
    pool.shutdown(wait=False)
    return pending


def _result(pending: Any) -> None:
    """Wait for an asynchronous save: a future, or what holds one for the upload."""
    getattr(pending, "upload_completion", pending).result()


def reason_of(error: BaseException, rank: int) -> str:
    """Why a save or load of ``rank`` failed: of what the ranks reported to PyTorch, the first rank's own error."""
    if isinstance(error, CheckpointException):
        failures: Mapping[int, Any] = error.failures
        rank, wrapped = min(failures.items())
        inner = wrapped[0] if isinstance(wrapped, tuple) else wrapped
        return f"rank {rank}: {inner}"
    return f"rank {rank}: {error}"


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def differing(saved: State, loaded: State) -> int:
    """Elements of this rank that are not bit for bit what was saved."""
    wrong = 0
    for name, tensor in saved.items():
        first, second = local(tensor), local(loaded[name])
        wrong += int((first.contiguous().view(torch.int32) != second.contiguous().view(torch.int32)).sum().item())
    return wrong
