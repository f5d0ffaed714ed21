"""torch.distributed.checkpoint's storage in a format of our own: raw tensors and a manifest, never a pickle.

PyTorch's own writer keeps its metadata as a pickle, which whoever can write to the storage can make run anything when
it is loaded. Planning, sharding, deduplication and asynchronous saving stay PyTorch's.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from raybench.benchmarks.checkpoint.manifest import (
    MANIFEST,
    CheckpointError,
    Manifest,
    Part,
    Tensor,
    check_part,
    decode,
)
from raybench.benchmarks.checkpoint.stores.store import Store, StoreError


def compress(data: bytes, how: str) -> bytes:
    """Bytes as they are stored."""
    if how == "zlib":
        return zlib.compress(data, 1)
    if how == "zstd":
        import zstandard  # optional

        return zstandard.ZstdCompressor(level=3).compress(data)
    return data


def decompress(data: bytes, how: str, length: int) -> bytes:
    """``length`` bytes as they were before they were stored. Raises CheckpointError where they are others."""
    try:
        if how == "zlib":
            data = zlib.decompressobj().decompress(data, length + 1)  # no more than that, whatever it would become
        elif how == "zstd":
            import zstandard  # optional

            # decompress() allocates what the frame itself says, whatever limit it is given; a reader does not
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                data = reader.read(length + 1)
    except ImportError as error:
        raise CheckpointError(f"it was stored with {how}, and {error.name} is not installed here") from error
    except Exception as error:
        raise CheckpointError(f"stored bytes cannot be decompressed ({error}); use an older checkpoint") from error
    if len(data) != length:
        raise CheckpointError(f"{len(data)} bytes were stored where {length} belong; use an older checkpoint")
    return data


class ManifestWriter(StorageWriter):
    """Writes one file a rank, and at the end the manifest, by the coordinator."""

    def __init__(self, store: Store, folder: str, *, rank: int, compression: str) -> None:
        super().__init__()
        self._store, self._folder, self._rank, self._compression = store, folder, rank, compression
        self.stored_bytes = 0
        self.manifest = b""

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing is kept between checkpoints but the folder."""

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing to prepare."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """As planned."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """As planned."""
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> "Future[list[WriteResult]]":
        """This rank's tensors into its file. Raises StoreError; CheckpointError for what is not a tensor."""
        results: list[WriteResult] = []
        if plan.items:
            self.stored_bytes = self._store.write(f"{self._folder}/{self._file}", self._pieces(plan, planner, results))
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    @property
    def _file(self) -> str:
        return f"rank-{self._rank}.bin"

    def _pieces(self, plan: SavePlan, planner: SavePlanner, results: list[WriteResult]) -> Iterator[bytes]:
        start = 0
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO or item.tensor_data is None:
                raise CheckpointError(f"{item.index.fqn} is not a tensor; only tensors are stored")
            tensor = planner.resolve_data(item)
            assert isinstance(tensor, torch.Tensor)
            data = compress(_bytes_of(tensor.detach().cpu().contiguous()), self._compression)
            part = Part(
                offsets=tuple(item.tensor_data.chunk.offsets),
                sizes=tuple(item.tensor_data.chunk.sizes),
                file=self._file,
                start=start,
                length=len(data),
                crc32=zlib.crc32(data),
            )
            results.append(WriteResult(index=item.index, size_in_bytes=len(data), storage_data=part))
            start += len(data)
            yield data

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the manifest, by which the checkpoint is finished."""
        parts: dict[str, list[Part]] = {}
        for result in (one for rank in results for one in rank):
            parts.setdefault(result.index.fqn, []).append(result.storage_data)
        tensors = {
            name: Tensor(
                dtype=str(entry.properties.dtype).removeprefix("torch."),
                shape=tuple(entry.size),
                parts=tuple(parts.get(name, ())),
            )
            for name, entry in metadata.state_dict_metadata.items()
            if isinstance(entry, TensorStorageMetadata)
        }
        self.manifest = Manifest(tensors=tensors, compression=self._compression).encode()
        self._store.write(f"{self._folder}/{MANIFEST}", [self.manifest])

    def storage_meta(self) -> StorageMeta | None:
        """None: the manifest has all."""
        return None

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Never chosen by an id."""
        return False


def _bytes_of(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.view(-1).view(torch.uint8).numpy().data) if tensor.numel() else b""


def read_manifest(store: Store, folder: str) -> bytes:
    """The manifest as stored. Raises CheckpointError where there is none."""
    try:
        return store.read(f"{folder}/{MANIFEST}")
    except StoreError as error:
        raise CheckpointError(f"{store.where}/{folder} is not a finished checkpoint: {error}") from error


class ManifestReader(StorageReader):
    """Reads what ManifestWriter wrote; ``manifest`` may come from the rank that sees it."""

    def __init__(self, store: Store, folder: str, manifest: bytes) -> None:
        super().__init__()
        self._store, self._folder = store, folder
        self._where = f"{store.where}/{folder}"
        self._manifest = decode(manifest, self._where)
        self._parts = {(name, part.offsets): part for name, part in self._manifest.parts()}

    def reset(self, checkpoint_id: Any = None) -> None:
        """Nothing is kept between checkpoints."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The manifest in PyTorch's terms."""
        return Metadata(state_dict_metadata={name: _metadata(one) for name, one in self._manifest.tensors.items()})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing to prepare."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """As planned."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """As planned."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> "Future[None]":
        """Fill this rank's tensors. Raises CheckpointError for bytes that are missing or altered."""
        for item in plan.items:
            tensor = self._read(item.storage_index)
            for dimension, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
                tensor = tensor.narrow(dimension, offset, length)
            target = planner.resolve_tensor(item).detach()
            target.copy_(tensor)
            planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _read(self, index: MetadataIndex) -> torch.Tensor:
        part = self._parts[index.fqn, tuple(index.offset or ())]
        return read_part(self._store, self._folder, self._manifest, index.fqn, part)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Never chosen by an id."""
        return False


def read_part(store: Store, folder: str, manifest: Manifest, name: str, part: Part) -> torch.Tensor:
    """One part of a tensor, checked. Raises CheckpointError."""
    where = f"{store.where}/{folder}"
    try:
        data = store.read(f"{folder}/{part.file}", part.start, part.length)
    except StoreError as error:
        raise CheckpointError(f"{where}/{part.file}, which holds {name}, cannot be read: {error}") from error
    check_part(name, part, data, where)
    dtype = getattr(torch, manifest.tensors[name].dtype)
    count = 1
    for size in part.sizes:
        count *= size
    raw = bytearray(decompress(data, manifest.compression, count * dtype.itemsize))
    return torch.frombuffer(raw, dtype=dtype).reshape(part.sizes) if raw else torch.empty(part.sizes, dtype=dtype)


def check_checkpoint(store: Store, folder: str) -> int:
    """Read every byte of a checkpoint. Returns how many are stored. Raises CheckpointError for the first fault."""
    manifest = decode(read_manifest(store, folder), f"{store.where}/{folder}")
    total = 0
    for name, part in manifest.parts():
        read_part(store, folder, manifest, name, part)
        total += part.length
    return total


def _metadata(tensor: Tensor) -> TensorStorageMetadata:
    chunks = [
        ChunkStorageMetadata(offsets=torch.Size(part.offsets), sizes=torch.Size(part.sizes)) for part in tensor.parts
    ]
    properties = TensorProperties(dtype=getattr(torch, tensor.dtype))
    return TensorStorageMetadata(properties=properties, size=torch.Size(tensor.shape), chunks=chunks)


def total_bytes(tensors: Sequence[torch.Tensor]) -> int:
    """Bytes of tensors as they lie in this rank."""
    return sum(one.numel() * one.element_size() for one in tensors)
