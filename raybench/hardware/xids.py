"""Xids of NVIDIA's driver: what a number means, and what is to be done."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from raybench.hardware.tables import read_table

XidAction = Literal["none", "application", "reset", "reboot", "inspect", "replace", "nvlink", "recovery"]


@dataclass(frozen=True, slots=True, kw_only=True)
class XidMeaning:
    """A line of NVIDIA's catalogue."""

    number: int
    name: str
    action: XidAction


@cache
def xid_catalogue() -> Mapping[int, XidMeaning]:
    """All Xids with a meaning, by number."""
    rows = read_table("raybench.hardware", "xids.csv")
    found = (XidMeaning(number=int(r["number"]), name=r["name"], action=cast("XidAction", r["action"])) for r in rows)
    return {one.number: one for one in found}
