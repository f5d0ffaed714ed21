"""What the module ``raybench_node_test`` answers."""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Mapping
from typing import Any

from .child import hear
from .interpreter import find_python

SCHEMA = "raybench.node_test/1"


def answer(options: Mapping[str, Any], modules: Mapping[str, str]) -> dict[str, Any]:
    """The module's result. ``modules`` are the sources that came with the arguments, by name."""
    began = time.monotonic()
    found = find_python(options["python"])
    result = {"schema": SCHEMA, "python": found.path, "why_no_torch": found.why_no_torch, "problem": "", "errors": ""}
    lines = []
    if not found.path:
        result["problem"] = found.why_no_torch.replace("Python with torch", "Python 3.9 or newer")
    else:
        sources = {name: text for name, text in modules.items() if name.split(".")[0] in {"raybench", "diagnostics"}}
        try:
            heard = hear(found.path, sources, options["plan"], options["plan"]["seconds"] + options["slack_seconds"])
        except OSError as error:
            result["problem"] = f"{found.path} cannot be started: {error}"
        else:
            lines = heard.lines
            result["problem"], result["errors"] = heard.problem, heard.errors
    result["lines"] = lines
    result["seconds"] = round(time.monotonic() - began, 3)
    packed = base64.b64encode(zlib.compress(json.dumps(result).encode("utf-8"), 6)).decode("ascii")
    return {"changed": False, "tested": packed}
