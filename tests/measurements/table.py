"""Plain tables on the terminal, and the JSON beside them."""

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from raybench import __version__


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table with columns as wide as they need to be; the first is aligned to the left."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    print(f"\n{title}")
    for number, line in enumerate(lines):
        cells = [
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  " + "  ".join(cells).rstrip())
        if not number:
            print("  " + "  ".join("-" * width for width in widths))
    sys.stdout.flush()


def write_json(path: Path | None, name: str, content: dict[str, Any]) -> None:
    """Write the figures with what explains them to ``path``; nothing where that is None."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmark": name, "machine": machine(), **content}, indent=1) + "\n")
    print(f"\nfigures: {path}")


def machine() -> dict[str, Any]:
    """What explains the figures."""
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return {
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu_count": os.cpu_count(),
        "load": list(os.getloadavg()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "tcp_congestion_control": congestion.read_text().strip() if congestion.exists() else "unknown",
        "versions": {"raybench": __version__, "torch": version("torch"), "ray": version("ray")},
    }
