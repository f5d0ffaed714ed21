"""What PyTorch's flight recorder says of a rank's last collectives: a pure reading of its dump."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KEPT_ENTRIES = 24
_RETIRED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One collective of the record. ``ranks`` of its process group are empty where they are unknown.

    ``over`` tells whether it is complete: on a GPU its kernel, elsewhere the operation.
    """

    group: str
    ranks: tuple[int, ...]
    sequence: int
    name: str
    count: int
    dtype: str
    over: bool


def recorded_of(dump: Mapping[str, Any] | None) -> tuple[Recorded, ...]:
    """The last collectives of a dump, oldest first; none where PyTorch keeps no record, or one of another form."""
    entries = dump.get("entries") if dump is not None else None
    if dump is None or not isinstance(entries, list):
        return ()
    groups = dump.get("pg_config")
    members = {str(name): _ranks(one) for name, one in groups.items()} if isinstance(groups, dict) else {}
    collectives = [one for one in entries if isinstance(one, dict) and not one.get("is_p2p")]
    return tuple(_recorded(one, members) for one in collectives[-KEPT_ENTRIES:])


def _recorded(entry: Mapping[str, Any], members: Mapping[str, tuple[int, ...]]) -> Recorded:
    group = entry.get("process_group")
    name = str(group[0]) if isinstance(group, (list, tuple)) and group else str(entry.get("pg_id", ""))
    sizes, dtypes = entry.get("input_sizes") or [], entry.get("input_dtypes") or [""]
    return Recorded(
        group=name,
        ranks=members.get(name, ()),
        sequence=int(entry.get("collective_seq_id", -1)),
        name=str(entry.get("profiling_name", "")).partition(":")[2].removeprefix("_") or "unknown",
        count=_elements(sizes[0]) if sizes else 0,
        dtype=str(dtypes[0]).lower(),
        over=bool(entry.get("retired")) or entry.get("state") == _RETIRED,
    )


def _elements(shape: Any) -> int:
    total = 1
    for length in shape if isinstance(shape, (list, tuple)) else ():
        total *= int(length)
    return total


def _ranks(config: Any) -> tuple[int, ...]:
    """``{'name': '0', 'desc': 'default_pg', 'ranks': '[0, 1]'}``."""
    text = str(config.get("ranks", "")) if isinstance(config, dict) else ""
    return tuple(int(part) for part in text.strip("[]").split(",") if part.strip().isdecimal())
