"""Results as somebody edited them: the JSON of a document, changed and written elsewhere."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[Any], object]


def written(path: Path, source: Path, *changes: Change) -> Path:
    content = json.loads(source.read_text(encoding="utf-8"))
    for change in changes:
        change(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def dated(number: int, when: str = "", factor: float = 1.0) -> Change:
    """The run of a day, or of a time, each with times of its own."""

    def change(content: Any) -> None:
        content["run_id"] = f"run-{number}"
        content["started_at"] = when or f"2026-11-{number + 1:02}T00:00:00+00:00"
        content["cluster"]["emulated"] = False
        for benchmark in content["benchmarks"]:
            for point in benchmark["points"]:
                noise = 1 + 1e-3 * ((7 * number) % 5)
                point["samples_seconds"] = [factor * noise * one for one in point["samples_seconds"]]
                point.pop("ci95_seconds", None)

    return change
