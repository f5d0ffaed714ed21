"""Writing the report's files whole or not at all."""

import json
from pathlib import Path

from raybench.documents.preflight import PreflightReport
from raybench.whole_file import write_whole

REPORT_NAME = "preflight.json"


def write_report(report: PreflightReport, folder: str | Path) -> Path:
    """Write ``preflight.json`` to a folder, which is made where there is none. Returns its path; raises OSError."""
    path = Path(folder).expanduser().absolute() / REPORT_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(report.to_json(), indent=1, ensure_ascii=False) + "\n")
    return path
