"""Where checkpoints go: the table of storage backends, one module each. Every request has a time limit.

Credentials and endpoints are those that the backend's library finds; nothing is asked for, kept or printed. Libraries
are imported when a backend is opened, and no backend imports torch.
"""

import importlib
import secrets
from dataclasses import dataclass

from raybench.benchmarks.checkpoint.stores.store import Store, StoreError

_PROBE = b"raybench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A module with ``open_store``, and the library that it needs with the extra of pyproject.toml that installs it."""

    module: str
    example: str
    library: str | None = None
    extra: str | None = None


_STORES = "raybench.benchmarks.checkpoint.stores"
BACKENDS: dict[str, Backend] = {
    "file": Backend(module=f"{_STORES}.folder", example="a folder"),
    "s3": Backend(module=f"{_STORES}.s3", example="s3://bucket/prefix", library="boto3", extra="s3"),
    "gs": Backend(module=f"{_STORES}.gcs", example="gs://bucket/prefix", library="gcsfs", extra="gcs"),
}
_EXAMPLES = [backend.example for backend in BACKENDS.values()]
PLACES = f"{', '.join(_EXAMPLES[:-1])} or {_EXAMPLES[-1]}"  # for messages


def divided(place: str) -> tuple[str, str]:
    """(scheme, rest) of a place; a path without a scheme is of "file"."""
    scheme, separator, rest = place.partition("://")
    return (scheme, rest) if separator else ("file", place)


def open_store(place: str, *, endpoint: str | None, limit_seconds: float) -> Store:
    """The store of a place as the options name it.

    Raises StoreError where its library is not installed, and for a scheme that is none of BACKENDS.
    """
    scheme, rest = divided(place)
    if scheme not in BACKENDS:
        raise StoreError(f"nothing is stored at {scheme}://; write {PLACES}")
    opener = importlib.import_module(BACKENDS[scheme].module)
    store: Store = opener.open_store(rest, endpoint=endpoint, limit_seconds=limit_seconds)
    return store


def probe(store: Store) -> None:
    """Write, read and remove a small file. Raises StoreError."""
    name = f"probe-{secrets.token_hex(6)}"
    store.write(name, [_PROBE])
    found = store.read(name)
    store.remove(name)
    if found != _PROBE:
        raise StoreError(f"{store.where} gave back other bytes than were written to it")
