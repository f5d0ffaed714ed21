"""``raybench study`` on a node of a lab, to its end."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.cluster import Lab

_ENTRY = "from raybench.cli import main; main()"


@dataclass(frozen=True, kw_only=True)
class LabStudy:
    """What a study said and left. ``folder`` is the study's, in the lab's shared folder."""

    status: int
    out: str
    errors: str
    folder: Path

    @property
    def content(self) -> dict[str, Any]:
        """Its study.json."""
        content: dict[str, Any] = json.loads((self.folder / "study.json").read_text())
        return content

    def results(self, variant: str) -> list[dict[str, Any]]:
        """result.json of every trial of a variant."""
        found = sorted(self.folder.glob(f"trials/*-{variant}/*/result.json"))
        return [json.loads(path.read_text()) for path in found]


def lab_study(lab: Lab, kind: str, *arguments: str, workload: tuple[str, ...], seconds: float = 400.0) -> LabStudy:
    """Run a study on node 1, joined to the lab's Ray cluster."""
    output = lab.folder.shared / f"studies-{os.urandom(4).hex()}"
    command = ["python", "-c", _ENTRY, "study", kind, "--output-dir", str(output), *arguments]
    command += ["--", *workload, "--address", lab.ray_address]
    try:
        done = lab.nodes[0].run(command, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"the study took too long: {error.stdout} {error.stderr}") from error
    folders = list(output.glob("*"))
    folder = folders[0] if folders else output
    return LabStudy(status=done.returncode, out=done.stdout, errors=done.stderr, folder=folder)
