"""What the module ``raybench_probe`` answers."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

from .gather import gather, own_address
from .ports import end_listener, is_listening, reach


def answer(options: Mapping[str, Any]) -> dict[str, Any]:
    """The module's result. ``options`` are the module's, checked and with their defaults."""
    if options["end_listener"]:
        return {"changed": False, "ended": end_listener()}
    if options["reach"]:
        found = reach(options["reach"], options["reach_ports"], options["timeout_seconds"], options["reached_earlier"])
        return {"changed": False, "reached": found}
    facts = gather(options)
    if not options["packed"]:
        return {"changed": False, "facts": facts}
    packed = base64.b64encode(zlib.compress(json.dumps(facts).encode("utf-8"), 6)).decode("ascii")
    answered = {
        "packed": packed,
        "address": own_address(facts),
        "reached": facts["reached"],
        "listening": is_listening(),
    }
    return {"changed": False, **answered}
