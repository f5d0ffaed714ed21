"""A host's answer, unpacked within bounds and checked for its form: a hostile host spoils its own row only."""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from raybench.preflight.forms import Form, by_name, flag, list_of, maybe, number, record, row_of, text

SCHEMA = "raybench.probe/1"
BOOT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_MOST_BYTES = 256 << 20  # of facts; a host with eight GPUs and a full kernel log has less than 10 MB


def unpack(packed: str) -> dict[str, Any]:
    """The facts that the probe module packed. Raises ValueError where they are damaged, too big or of another form."""
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        facts: Any = json.loads(content) if unpacking.eof else None
    except (zlib.error, binascii.Error, RecursionError, ValueError, TypeError) as error:
        raise ValueError(f"the probe's answer is damaged: {error}") from error
    if not unpacking.eof:
        raise ValueError(f"the probe's answer is damaged: it is cut off, or has more than {_MOST_BYTES >> 20} MiB")
    wrong = wrong_form(facts)
    if wrong:
        raise ValueError(f"the probe's answer is damaged: {wrong} has another form than the probe gives it")
    found: dict[str, Any] = facts
    return found


def boot_id_of(facts: Mapping[str, Any]) -> str:
    """The same for all hosts that share a kernel, such as containers of one machine; empty where it was not read."""
    values = facts.get("readings", {}).get("proc", {}).get("values") or {}
    return str(values.get("/proc/sys/kernel/random/boot_id") or "").strip()


def attempts_of(reached: object) -> Sequence[Mapping[str, Any]]:
    """What a host says of trying others' ports; nothing where that has another form than the probe gives it."""
    return reached if isinstance(reached, list) and _ATTEMPTS(reached) else ()


def wrong_form(facts: object) -> str:
    """The first part of the facts that is not as the probe module writes it; empty where all is."""
    if not isinstance(facts, dict) or facts.get("schema") != SCHEMA:
        return "schema"
    wrong = next((name for name, form in _TOP.items() if name in facts and not form(facts[name])), "")
    if wrong or not {"clock", "seconds", "hostname", "readings"} <= facts.keys():
        return wrong or "facts"
    return next((name for name, reading in facts["readings"].items() if not _is_reading(name, reading)), "")


def _is_reading(name: str, reading: Mapping[str, Any]) -> bool:
    if name in _MEMBERS:
        return reading["status"] != "ok" or _MEMBERS[name](reading)
    form = _VALUES.get(name)
    if reading["status"] == "ok" and form is not None:
        return "value" in reading and form(reading["value"])
    return name not in _VALUES or reading["status"] != "ok"


def _reading(value: object) -> bool:
    if not isinstance(value, dict) or not text(value.get("status")):
        return False
    texts = all(text(value.get(name, "")) for name in ("text", "error"))
    return texts and by_name(maybe(text))(value.get("values", {}))


_ATTEMPTS = list_of(record(host=text, port=number, answer=text))
_TOP: Mapping[str, Form] = {
    "hostname": text,
    "clock": number,
    "seconds": number,
    "uid": number,
    "module_python": text,
    "expectations": lambda value: isinstance(value, dict),
    "reached": _ATTEMPTS,
    "readings": by_name(_reading),
}
_LIMIT = row_of(number, number)
# Readings that have more than one value.
_MEMBERS: Mapping[str, Form] = {
    "counters": record(before=by_name(number), after=by_name(number), seconds=number),
}
# Values that the probe reads itself, by the name of the reading.
_VALUES: Mapping[str, Form] = {
    "listening": by_name(text),
    "memlock": _LIMIT,
    "nofile": _LIMIT,
    "nproc": _LIMIT,
    "uninterruptible": list_of(row_of(text, text)),
    "variables": list_of(row_of(text, text, text)),
    "mounts": list_of(row_of(text, text, flag, maybe(flag))),
    "time_services": list_of(text),
    "time_zone": maybe(text),
    "routes": list_of(by_name(text)),
    "gids": list_of(lambda row: isinstance(row, list) and all(text(one) or number(one) for one in row)),
    "pkeys": by_name(list_of(text)),
    "devices": by_name(flag),
    "rdma_interfaces": by_name(text),
    "rdma_devices": list_of(text),
    "rdma_drivers": by_name(text),
    "default_interface": maybe(text),
    "addresses": by_name(text),
    "sharp": list_of(text),
    "dma_buf": by_name(text),
    "is_virtual": maybe(flag),
    "pci_devices": by_name(list_of(maybe(text))),
    "kernel_release": text,
    "cpu_count": maybe(number),
    "processor": record(model=text, microcode=text, usable=number, boost=maybe(flag), most_khz=maybe(number)),
    "file_systems": by_name(maybe(by_name(number))),
    "home": record(path=text, writable=flag),
    "own_name": record(name=text, addresses=list_of(text)),
}
