"""Weights & Biases: a run of WANDB_PROJECT. Without a key for its server it is kept offline, as WANDB_MODE=offline."""

import netrc
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from raybench.trackers.base import Begun, Concluded, Figures, Remark, documents

FOLDER = "wandb"
_MOST_WARNINGS = 50
_HOST = "https://api.wandb.ai"


class WeightsAndBiases:
    """Each series has its own axis: the client drops what is logged at a step before the last."""

    def __init__(self) -> None:
        import wandb

        self.where = ""
        self.remark = ""
        self._wandb: Any = wandb
        self._run: Any = None
        self._groups: set[str] = set()
        self._warnings: list[str] = []
        self._id = ""

    def begin(self, begun: Begun) -> None:
        """What the environment names wins: project, name, group, folder and mode."""
        given = os.environ
        offline = not given.get("WANDB_MODE") and not _has_key()
        chosen = {
            "project": None if given.get("WANDB_PROJECT") else begun.project,
            "name": None if given.get("WANDB_NAME") else begun.run_id,
            "group": None if given.get("WANDB_RUN_GROUP") else begun.group or None,
            "job_type": None if given.get("WANDB_JOB_TYPE") else begun.command,
            "dir": None if given.get("WANDB_DIR") else begun.folder,
            "mode": "offline" if offline else None,
        }
        settings = self._wandb.Settings(console="off", silent=True, disable_git=True, save_code=False)
        self._run = self._wandb.init(config=dict(begun.settings), settings=settings, **chosen)
        self._id = begun.run_id
        kept = str(Path(self._run.dir).parent)
        self.where = self._run.url or kept
        if not self._run.url:
            why = "no key of its server was found; " if offline else ""
            self.remark = f"{why}it is kept offline: wandb sync {kept}"

    def log(self, figures: Iterable[Figures]) -> None:
        """One call for a place of a series."""
        for one in figures:
            axis = f"{one.group}/{one.axis}"
            if one.group not in self._groups:
                self._groups.add(one.group)
                self._run.define_metric(axis, hidden=True)
                self._run.define_metric(f"{one.group}/*", step_metric=axis)
            self._run.log({**one.named(), axis: one.position})

    def remark_on(self, remark: Remark) -> None:
        """In the summary: an alert would send mails."""
        self._warnings = [*self._warnings, remark.text][-_MOST_WARNINGS:]
        self._run.summary["warnings"] = list(self._warnings)
        self._run.summary["warnings_count"] = remark.number

    def conclude(self, concluded: Concluded) -> None:
        """The summary, and an artifact with the documents."""
        self._run.summary.update(
            {
                "verdict": concluded.verdict,
                "verdict_reason": concluded.reason,
                "exit_code": concluded.exit_code,
                **{f"summary/{name}": value for name, value in concluded.figures.items()},
            }
        )
        found = documents(concluded)
        if found:
            artifact = self._wandb.Artifact(name=f"raybench-{self._id}", type="raybench-result")
            for path in found:
                artifact.add_file(str(path), name=path.name)
            self._run.log_artifact(artifact)

    def close(self, exit_code: int | None) -> None:
        """Returns when all is sent, or on the disk."""
        if self._run is not None:
            self._run.finish(exit_code=255 if exit_code is None else exit_code)


def _has_key() -> bool:
    """Whether the client would find a key for its server: in its variables, or in the netrc file that it writes."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL") or _HOST).hostname or ""
    named = os.environ.get("NETRC")
    for path in [Path(named)] if named else [Path("~/.netrc").expanduser(), Path("~/_netrc").expanduser()]:
        try:
            if host in netrc.netrc(str(path)).hosts:
                return True
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
            continue
    return False
