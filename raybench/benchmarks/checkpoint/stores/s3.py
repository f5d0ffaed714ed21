"""S3, or what speaks its protocol, with boto3. Credentials and endpoints are those that boto3 finds (AWS_*)."""

from collections.abc import Iterable
from typing import Any

from raybench.benchmarks.checkpoint.stores.store import library_of, named_errors


def open_store(place: str, *, endpoint: str | None, limit_seconds: float) -> "S3Store":
    """The store of ``bucket/prefix``."""
    return S3Store(place, endpoint=endpoint, limit_seconds=limit_seconds)


class S3Store:
    """A bucket, with boto3. ``endpoint``: any server that speaks S3; else AWS_ENDPOINT_URL or AWS itself."""

    def __init__(self, place: str, *, endpoint: str | None, limit_seconds: float) -> None:
        boto3 = library_of("boto3", "s3")
        from botocore.config import Config  # comes with boto3

        self._bucket, _, prefix = place.partition("/")
        self._prefix = prefix.strip("/")
        self.where = f"s3://{place}"
        each = max(limit_seconds / 3, 0.5)  # a request is tried twice, and the second try has a pause before it
        config = Config(connect_timeout=each, read_timeout=each, retries={"total_max_attempts": 2, "mode": "standard"})
        self._limit = limit_seconds
        with named_errors(self.where):
            self._client = boto3.client("s3", endpoint_url=endpoint, config=config)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """See Store. Large files go in parts, several at a time."""
        source: Any = _Chunks(chunks)
        with named_errors(self.where):
            self._client.upload_fileobj(source, self._bucket, self._key(name))
        return int(source.count)

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """See Store."""
        if length == 0:
            return b""
        end = "" if length is None else str(start + length - 1)
        with named_errors(f"{self.where}/{name}"):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name), Range=f"bytes={start}-{end}")
            data: bytes = answer["Body"].read()
        return data

    def remove(self, name: str) -> None:
        """See Store."""
        with named_errors(self.where):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))


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
