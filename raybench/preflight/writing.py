"""Writing the report's files whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPORT_NAME = "preflight.json"


def write_report(report: Mapping[str, Any], folder: str | Path) -> Path:
    """Write ``preflight.json`` to a folder, which is made where there is none. Returns its path; raises OSError."""
    path = Path(folder).expanduser().absolute() / REPORT_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    partial.write_text(text, encoding="utf-8", errors="replace")  # a name on a host may be of any bytes
    partial.replace(path)
    return path
