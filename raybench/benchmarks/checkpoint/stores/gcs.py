"""Google Cloud Storage with gcsfs. Credentials are those that it finds (GOOGLE_APPLICATION_CREDENTIALS)."""

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from raybench.benchmarks.checkpoint.stores.store import Answer, Heartbeat, StoreError, call_with_timeout, library_of

_PIECE_BYTES = 16 * 2**20  # of an upload: each has the time limit of a request


def open_store(place: str, *, endpoint: str | None, limit_seconds: float) -> "GcsStore":
    """The store of ``bucket/prefix``."""
    return GcsStore(place, endpoint=endpoint, limit_seconds=limit_seconds)


class GcsStore:
    """A bucket of Google Cloud Storage, with gcsfs, or of an emulator at STORAGE_EMULATOR_HOST."""

    def __init__(self, place: str, *, endpoint: str | None, limit_seconds: float) -> None:
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")  # else a probe of a minute a bucket
        gcsfs = library_of("gcsfs", "gcs")
        self._place, self._limit = place.strip("/"), limit_seconds
        self.where = f"gs://{place}"
        emulated = bool(endpoint or os.environ.get("STORAGE_EMULATOR_HOST"))
        settings = {"endpoint_url": endpoint} if endpoint else {}
        self._files: Any = self._call(
            lambda: gcsfs.GCSFileSystem(
                token="anon" if emulated else None, use_listings_cache=False, skip_instance_cache=True, **settings
            )
        )

    def _call(self, call: Callable[[], Answer]) -> Answer:
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
        return self._call(lambda: bytes(self._files.cat_file(f"{self._place}/{name}", start=start, end=end)))

    def remove(self, name: str) -> None:
        """See Store."""
        with contextlib.suppress(StoreError):
            self._call(lambda: self._files.rm_file(f"{self._place}/{name}"))
