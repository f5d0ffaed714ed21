"""``amd-smi xgmi``: states and rates of the links between GPUs, as text or as JSON."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from raybench.preflight.parsers.amd_smi import at, number, parse_amd_smi

_ROW = re.compile(r"^[ \t]*(GPU\s?\d+)[ \t]+\S+:\S+[ \t]+((?:(?:SELF|N/A|[UDX])[ \t]*)+)$", re.MULTILINE)
_RATES = re.compile(
    r"^[ \t]*(GPU\s?\d+)[ \t]+\S+:\S+[ \t]+(\d{1,10}) Gb/s[ \t]*(\d{1,10}) Gb/s[ \t]*XGMI\b", re.MULTILINE
)
_NO_RATE = 65535  # what amd-smi prints of a GPU without such links


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """Rates of a GPU's XGMI links, in Gb/s (10^9 bits): a lane's, and a link's."""

    bit_rate: float
    bandwidth: float


def parse_link_rates(text: str) -> dict[str, LinkRate]:
    """Rates by GPU; without those that have no XGMI links. Sample of ``amd-smi xgmi --metric`` (ROCm 6.4, MI300X)::

           bdf          bit_rate max_bandwidth link_type 0000:0c:00.0 0000:22:00.0
    GPU0   0000:0c:00.0 32 Gb/s  512 Gb/s      XGMI
    """
    rows = {name.replace(" ", ""): (float(rate), float(wide)) for name, rate, wide in _RATES.findall(text)}
    for index, gpu in enumerate(parse_amd_smi(text)):
        rate, wide = (number(gpu, "link_metrics", name) for name in ("bit_rate", "max_bandwidth"))
        if rate and wide and at(gpu, "link_metrics", "link_type") == "XGMI":
            rows.setdefault(f"GPU{gpu.get('gpu', index)}", (rate, wide))
    return {name: LinkRate(bit_rate=rate, bandwidth=wide) for name, (rate, wide) in rows.items() if 0 < rate < _NO_RATE}


def parse_link_states(text: str) -> dict[str, list[str]]:
    """States of XGMI links by GPU, U up, D down, X disabled. Sample of ``amd-smi xgmi -l`` (6.4)::

           bdf          link_status
    GPU0   0000:0c:00.0  U  U  U  X  U  U  U  D

    Newer ones print ports in this form and then, of each pair of GPUs, ``GPU0  0000:0c:00.0  SELF  U  N/A``.
    """
    found: dict[str, list[str]] = {}
    for name, states in _ROW.findall(text):
        own = found.setdefault(name.replace(" ", ""), [])
        own += [one for one in states.split() if one in {"U", "D", "X"}]
    for index, gpu in enumerate(parse_amd_smi(text)):
        states = [str(one).upper()[:1] for one in _states(gpu)]
        if states:
            found.setdefault(f"GPU{gpu.get('gpu', index)}", states)
    return {name: states for name, states in found.items() if states}


def _states(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"link_status", "port_status"} and isinstance(value, list):
                for one in value:  # a state for each link, or a row with the peer beside it
                    yield from [one] if isinstance(one, str) else _states(one)
            elif key == "status" and isinstance(value, str):
                yield value
            elif isinstance(value, dict | list):
                yield from _states(value)
    elif isinstance(node, list):
        for one in node:
            yield from _states(one)
