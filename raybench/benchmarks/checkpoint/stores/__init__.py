"""Where checkpoints go: the table of storage backends, one module each. Every request has a time limit.

Credentials and endpoints are those that the backend's library finds; nothing is asked for, kept or printed. Libraries
are imported when a backend is opened, and no backend imports torch.
"""

import importlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from raybench.benchmarks.checkpoint.stores.store import Store, StoreError

_PROBE = b"raybench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A module with ``open_store``, and the library that it needs with the extra of pyproject.toml that installs it.

    ``endpoint``: whether it stores at a server that ``--endpoint`` may name.
    """

    module: str
    example: str
    endpoint: bool = False
    library: str | None = None
    extra: str | None = None


_STORES = "raybench.benchmarks.checkpoint.stores"
BACKENDS: dict[str, Backend] = {
    "file": Backend(module=f"{_STORES}.folder", example="a folder"),
    "s3": Backend(module=f"{_STORES}.s3", example="s3://bucket/prefix", endpoint=True, library="boto3", extra="s3"),
    "gs": Backend(module=f"{_STORES}.gcs", example="gs://bucket/prefix", endpoint=True, library="gcsfs", extra="gcs"),
}
_EXAMPLES = [backend.example for backend in BACKENDS.values()]
PLACES = f"{', '.join(_EXAMPLES[:-1])} or {_EXAMPLES[-1]}"  # for messages


def divided(place: str) -> tuple[str, str]:
    """(scheme, rest) of a place; a path without a scheme is of "file"."""
    scheme, separator, rest = place.partition("://")
    return (scheme, rest) if separator else ("file", place)


def refusal(place: str) -> str | None:
    """Why nothing can be stored at a place, as the end of a sentence; None where something can.

    Servers and HTTP clients resolve ``..`` and empty parts each in their own way: to another bucket, too.
    """
    scheme, rest = divided(place)
    if scheme not in BACKENDS or not rest:
        return f"is not a place for checkpoints; write {PLACES}"
    if scheme != "file" and {"", ".", ".."} & set(rest.removesuffix("/").split("/")):
        return f"has an empty part, '.' or '..' behind {scheme}://; write {BACKENDS[scheme].example}"
    return None


def endpoint_refusal(places: Sequence[str]) -> str | None:
    """Why an endpoint is of no use to any of these places, as the end of a sentence; None where it is."""
    if any(BACKENDS[divided(place)[0]].endpoint for place in places):
        return None
    served = " and ".join(f"{scheme}://" for scheme, backend in BACKENDS.items() if backend.endpoint)
    return f"is for {served}; leave it out, or write {PLACES}"


def open_store(place: str, *, endpoint: str | None, limit_seconds: float) -> Store:
    """The store of a place as the options name it.

    Raises StoreError where its library is not installed, and for what ``refusal`` refuses.
    """
    scheme, rest = divided(place)
    if reason := refusal(place):
        raise StoreError(f"{place} {reason}")
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
