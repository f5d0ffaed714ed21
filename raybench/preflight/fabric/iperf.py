"""What ``iperf3 --json`` and our own TCP stream print, as figures."""

import json
import math
from dataclasses import dataclass
from typing import Any

from raybench.preflight.fabric.errors import NoFigureError


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpStream:
    """A TCP transfer, as the receiver counted it. ``retransmits`` is None where the tool does not say."""

    gbit_per_s: float
    seconds: float
    streams: int
    retransmits: int | None
    tool: str


def parse_iperf(text: str) -> TcpStream:
    """The end of an iperf3 run in JSON: what arrived (``end.sum_received``), not what was sent.

    Raises NoFigureError with iperf3's own ``error`` where it has one, and where nothing arrived.
    """
    document = _document(text)
    if document.get("error"):
        raise NoFigureError(f"iperf3 said: {str(document['error'])[:200]}")
    end = _mapping(document, "end")
    received = _mapping(end, "sum_received")
    bits, seconds = _number(received, "bits_per_second"), _number(received, "seconds")
    if bits == 0:
        raise NoFigureError("not measured: nothing arrived while iperf3 measured")
    if bits is None or bits < 0 or seconds is None or seconds <= 0:
        raise NoFigureError("iperf3 ended without a figure of what arrived")
    retransmits = _number(_mapping(end, "sum_sent"), "retransmits")
    return TcpStream(
        gbit_per_s=bits / 1e9,
        seconds=seconds,
        streams=len(end["streams"]) if isinstance(end.get("streams"), list) else 1,
        retransmits=None if retransmits is None else int(retransmits),
        tool=str(_mapping(document, "start").get("version") or "iperf3"),
    )


def parse_own_stream(text: str) -> TcpStream:
    """The TCP stream that our module runs where iperf3 is missing, one line of JSON. Raises NoFigureError."""
    document = _document(text)
    received, seconds = _number(document, "received_bytes"), _number(document, "seconds")
    if received == 0:
        raise NoFigureError("not measured: nothing arrived while the TCP stream measured")
    if not received or received <= 0 or not seconds or seconds <= 0:
        raise NoFigureError("the TCP stream ended without a figure of what arrived")
    streams = _number(document, "streams")
    return TcpStream(
        gbit_per_s=received * 8e-9 / seconds,
        seconds=seconds,
        streams=int(streams or 1),
        retransmits=None,
        tool="raybench's own TCP stream",
    )


def _document(text: str) -> dict[str, Any]:
    begin = text.find("{")  # a warning may stand before it
    try:
        document, _ = json.JSONDecoder().raw_decode(text, begin) if begin >= 0 else (None, 0)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise NoFigureError(f"it printed no JSON: {text.strip()[-200:] or 'nothing'}")
    return document


def _mapping(document: dict[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _number(document: dict[str, Any], name: str) -> float | None:
    value = document.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable and value is not None else None
