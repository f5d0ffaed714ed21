"""Where checkpoints go: a folder, S3 or what speaks its protocol, Google Cloud Storage. Every request has a limit.

boto3 and gcsfs are imported when such a place is asked for. Credentials and endpoints are those that these libraries
find (AWS_*, GOOGLE_APPLICATION_CREDENTIALS, STORAGE_EMULATOR_HOST); nothing is asked for, kept or printed.
"""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from raybench.installation import install_advice

Answer = TypeVar("Answer")
_PROBE = b"raybench"
_FOLDER_ATTEMPTS = 50
_PIECE_BYTES = 16 * 2**20  # of an upload: each has the time limit of a request


class StoreError(Exception):
    """A storage that cannot be reached, refuses, or does not answer in time. The message says which and why."""


class Store(Protocol):
    """A place for the files of checkpoints. Every method raises StoreError."""

    where: str

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """Store a file whole and durably. Returns its bytes."""

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file, fewer where it ends before."""

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""


def open_store(place: str, *, endpoint: str | None, limit_seconds: float) -> Store:
    """The store of a place as the options name it.

    Raises StoreError where its library is not installed, and for a scheme that is none of ``options.SCHEMES``.
    """
    scheme, separator, rest = place.partition("://")
    match scheme if separator else "file":
        case "s3":
            return S3Store(rest, endpoint=endpoint, limit_seconds=limit_seconds)
        case "gs":
            return GcsStore(rest, endpoint=endpoint, limit_seconds=limit_seconds)
        case "file":
            return FolderStore(Path(rest if separator else place))
    raise StoreError(f"nothing is stored at {scheme}://; write a folder, s3://... or gs://...")


def probe(store: Store) -> None:
    """Write, read and remove a small file. Raises StoreError."""
    name = f"probe-{secrets.token_hex(6)}"
    store.write(name, [_PROBE])
    found = store.read(name)
    store.remove(name)
    if found != _PROBE:
        raise StoreError(f"{store.where} gave back other bytes than were written to it")


class FolderStore:
    """A folder of a file system that this rank sees. Files are synced to the disk, and dropped from the page cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """See Store."""
        path = self._folder / name
        try:
            with _created(path) as file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # else loading reads from memory
                written = file.tell()
            _sync_folder(path.parent)
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
        return written

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """See Store."""
        path = self._folder / name
        try:
            with path.open("rb") as file:
                file.seek(start)
                left = max(os.fstat(file.fileno()).st_size - start, 0)  # what is asked for may be more than memory has
                return file.read(-1 if length is None else min(length, left))
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error

    def remove(self, name: str) -> None:
        """See Store."""
        path = self._folder / name
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()  # only where it is empty


def _created(path: Path) -> BinaryIO:
    """A new file and its folder. Whoever removes the last file of the folder meanwhile takes the folder away."""
    for _ in range(_FOLDER_ATTEMPTS - 1):
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            return _opened_in_its_folder(path)
        time.sleep(0.001)
    return _opened_in_its_folder(path)


def _opened_in_its_folder(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb", buffering=2**20)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3Store:
    """A bucket, with boto3. ``endpoint``: any server that speaks S3; else AWS_ENDPOINT_URL or AWS itself."""

    def __init__(self, place: str, *, endpoint: str | None, limit_seconds: float) -> None:
        boto3 = _library("boto3", "s3")
        from botocore.config import Config  # comes with boto3

        self._bucket, _, prefix = place.partition("/")
        self._prefix = prefix.strip("/")
        self.where = f"s3://{place}"
        each = max(limit_seconds / 3, 0.5)  # a request is tried twice, and the second try has a pause before it
        config = Config(connect_timeout=each, read_timeout=each, retries={"total_max_attempts": 2, "mode": "standard"})
        self._limit = limit_seconds
        with _named(self.where):
            self._client = boto3.client("s3", endpoint_url=endpoint, config=config)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """See Store. Large files go in parts, several at a time."""
        source: Any = _Chunks(chunks)
        with _named(self.where):
            self._client.upload_fileobj(source, self._bucket, self._key(name))
        return int(source.count)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """See Store."""
        if length == 0:
            return b""
        end = "" if length is None else str(start + length - 1)
        with _named(f"{self.where}/{name}"):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name), Range=f"bytes={start}-{end}")
            data: bytes = answer["Body"].read()
        return data

    def remove(self, name: str) -> None:
        """See Store."""
        with _named(self.where):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))


class GcsStore:
    """A bucket of Google Cloud Storage, with gcsfs, or of an emulator at STORAGE_EMULATOR_HOST."""

    def __init__(self, place: str, *, endpoint: str | None, limit_seconds: float) -> None:
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # else a probe of a minute a bucket
        gcsfs = _library("gcsfs", "gcs")
        self._place, self._limit = place.strip("/"), limit_seconds
        self.where = f"gs://{place}"
        emulated = bool(endpoint or os.environ.get("STORAGE_EMULATOR_HOST"))
        settings = {"endpoint_url": endpoint} if endpoint else {}
        self._files: Any = self._bounded(
            lambda: gcsfs.GCSFileSystem(
                token="anon" if emulated else None, use_listings_cache=False, skip_instance_cache=True, **settings
            )
        )

    def _bounded(self, call: Callable[[], Answer]) -> Answer:
        return call_with_timeout(call, self._limit, self.where)

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """See Store."""
        beat = Heartbeat()

        def send() -> int:
            written = 0
            with self._files.open(f"{self._place}/{name}", "wb") as file:
                for chunk in chunks:
                    for start in range(0, len(chunk), _PIECE_BYTES):
                        written += file.write(memoryview(chunk)[start : start + _PIECE_BYTES])
                        beat.renew()
            return written

        return call_with_timeout(send, self._limit, self.where, beat)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """See Store."""
        if length == 0:
            return b""
        end = None if length is None else start + length
        return self._bounded(lambda: bytes(self._files.cat_file(f"{self._place}/{name}", start=start, end=end)))

    def remove(self, name: str) -> None:
        """See Store."""
        with contextlib.suppress(StoreError):
            self._bounded(lambda: self._files.rm_file(f"{self._place}/{name}"))


class _Chunks:
    """An iterable of bytes as a file that is read once."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._rest = iter(chunks), b""
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""
        pieces, length = [self._rest], len(self._rest)
        while size < 0 or length < size:
            piece = next(self._chunks, None)
            if piece is None:
                break
            pieces.append(piece)
            length += len(piece)
        whole = b"".join(pieces)
        cut = len(whole) if size < 0 else size
        self._rest = whole[cut:]
        self.count += len(whole[:cut])
        return whole[:cut]


def _library(name: str, extra: str) -> Any:
    import importlib  # only for places that need one

    try:
        return importlib.import_module(name)
    except ImportError as error:
        advice = install_advice(extra)
        raise StoreError(f"{name} is not installed on this node: {advice}") from error


@contextlib.contextmanager
def _named(where: str) -> Iterator[None]:
    """Whatever a storage library raises as a StoreError that names the place."""
    try:
        yield
    except Exception as error:
        raise StoreError(f"{where}: {_first_line(error)}") from error


class Heartbeat:
    """When a call that consists of many requests last got on."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """One more request is done."""
        self.last = time.monotonic()


def call_with_timeout(call: Callable[[], Answer], seconds: float, where: str, beat: Heartbeat | None = None) -> Answer:
    """What ``call`` returns. Raises StoreError with its error, or when it takes longer; it then goes on unheard.

    With a ``beat`` that the call renews, the limit counts from its last one.
    """
    beat = beat or Heartbeat()
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 - told to the caller
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive() and (left := beat.last + seconds - time.monotonic()) > 0:
        thread.join(left)
    if answers:
        return answers[0]
    if errors and isinstance(errors[0], StoreError):
        raise errors[0]
    if errors:
        raise StoreError(f"{where}: {_first_line(errors[0])}") from errors[0]
    raise StoreError(f"{where} did not answer within {seconds:g} s")


def _first_line(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
