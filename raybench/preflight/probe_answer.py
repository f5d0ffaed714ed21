"""A host's answer, unpacked within bounds and checked for its form: a hostile host spoils its own row only."""

import base64
import binascii
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

SCHEMA = "raybench.probe/1"
_MOST_BYTES = 256 << 20  # of facts; a host with eight GPUs and a full kernel log has less than 10 MB
_LARGEST_NUMBER = 2.0**64
Form = Callable[[Any], bool]


def unpack(packed: str) -> dict[str, Any]:
    """The facts that the probe module packed. Raises ValueError where they are damaged, too big or of another form."""
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
        facts: Any = json.loads(text) if unpacking.eof else None
    except (zlib.error, binascii.Error, RecursionError, ValueError, TypeError) as error:
        raise ValueError(f"the probe's answer is damaged: {error}") from error
    if not unpacking.eof:
        raise ValueError(f"the probe's answer is damaged: it is cut off, or has more than {_MOST_BYTES >> 20} MiB")
    wrong = wrong_form(facts)
    if wrong:
        raise ValueError(f"the probe's answer is damaged: {wrong} has another form than the probe gives it")
    found: dict[str, Any] = facts
    return found


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
    form = _VALUES.get(name)
    if reading["status"] == "ok" and form is not None:
        return "value" in reading and form(reading["value"])
    return name not in _VALUES or reading["status"] != "ok"


def _text(value: object) -> bool:
    return isinstance(value, str)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER and math.isfinite(value)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _maybe(form: Form) -> Form:
    return lambda value: value is None or form(value)


def _list(form: Form) -> Form:
    return lambda value: isinstance(value, list) and all(map(form, value))


def _row(*forms: Form) -> Form:
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(forms)
        and all(form(one) for form, one in zip(forms, value, strict=True))
    )


def _by_name(form: Form) -> Form:
    return lambda value: isinstance(value, dict) and all(_text(name) and form(one) for name, one in value.items())


def _record(**forms: Form) -> Form:
    return lambda value: (
        isinstance(value, dict) and all(name in value and form(value[name]) for name, form in forms.items())
    )


def _reading(value: object) -> bool:
    if not isinstance(value, dict) or not _text(value.get("status")):
        return False
    texts = all(_text(value.get(name, "")) for name in ("text", "error"))
    return texts and _by_name(_maybe(_text))(value.get("values", {}))


_ATTEMPTS = _list(_record(host=_text, port=_number, answer=_text))
_TOP: Mapping[str, Form] = {
    "hostname": _text,
    "clock": _number,
    "seconds": _number,
    "uid": _number,
    "module_python": _text,
    "expectations": lambda value: isinstance(value, dict),
    "reached": _ATTEMPTS,
    "readings": _by_name(_reading),
}
_LIMIT = _row(_number, _number)
# Values that the probe reads itself, by the name of the reading.
_VALUES: Mapping[str, Form] = {
    "listening": _by_name(_text),
    "memlock": _LIMIT,
    "nofile": _LIMIT,
    "nproc": _LIMIT,
    "uninterruptible": _list(_row(_text, _text)),
    "variables": _list(_row(_text, _text, _text)),
    "mounts": _list(_row(_text, _text, _flag, _maybe(_flag))),
    "time_services": _list(_text),
    "time_zone": _maybe(_text),
    "routes": _list(_by_name(_text)),
    "gids": _list(lambda row: isinstance(row, list) and all(_text(one) or _number(one) for one in row)),
    "pkeys": _by_name(_list(_text)),
    "devices": _by_name(_flag),
    "rdma_interfaces": _by_name(_text),
    "rdma_devices": _list(_text),
    "rdma_drivers": _by_name(_text),
    "default_interface": _maybe(_text),
    "addresses": _by_name(_text),
    "sharp": _list(_text),
    "dma_buf": _by_name(_text),
    "is_virtual": _maybe(_flag),
    "pci_devices": _by_name(_list(_maybe(_text))),
    "kernel_release": _text,
    "cpu_count": _maybe(_number),
    "processor": _record(model=_text, microcode=_text, usable=_number, boost=_maybe(_flag), most_khz=_maybe(_number)),
    "file_systems": _by_name(_maybe(_by_name(_number))),
    "home": _record(path=_text, writable=_flag),
    "own_name": _record(name=_text, addresses=_list(_text)),
}
