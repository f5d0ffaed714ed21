"""Comet: an experiment of COMET_PROJECT_NAME. Without COMET_API_KEY it is kept as an archive for ``comet upload``."""

import glob
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from raybench.trackers.base import Begun, Concluded, Figures, Remark, documents

FOLDER = "comet"


class Comet:
    """Nothing but what it is told is logged: no code, no output, no variables of the machine."""

    def __init__(self) -> None:
        os.environ.setdefault("COMET_LOGGING_CONSOLE", "ERROR")
        import comet_ml

        logging.getLogger("comet_ml").setLevel(logging.ERROR)
        self.where = ""
        self.remark = ""
        self._comet: Any = comet_ml
        self._experiment: Any = None
        self._folder = ""

    def begin(self, begun: Begun) -> None:
        """Project, workspace and key are the client's to find: in its variables or its configuration file."""
        found = self._comet.get_config()
        offline = not found["comet.api_key"] and found["comet.start.online"] is None
        online = False if offline else None
        self._folder = os.environ.get("COMET_OFFLINE_DIRECTORY") or str(Path(begun.folder) / FOLDER)
        project = None if found["comet.project_name"] else begun.project
        name = None if os.environ.get("COMET_START_EXPERIMENT_NAME") else begun.run_id
        config = self._comet.ExperimentConfig(
            name=name, offline_directory=self._folder, display_summary_level=0, **dict.fromkeys(_AUTOMATIC, False)
        )
        self._experiment = self._comet.start(project_name=project, online=online, experiment_config=config)
        self._experiment.log_parameters(dict(begun.settings))
        self._experiment.log_others({"command": begun.command, "run_id": begun.run_id, "study": begun.group})
        self.where = self._experiment.url or self._archive()
        if not self._experiment.url:
            why = "no COMET_API_KEY was found; " if offline else ""
            self.remark = f"{why}it is kept offline: comet upload {self._archive()}"

    def _archive(self) -> str:
        """The client opens its archive as it starts, and puts letters of its own behind the key where it may go on."""
        key = self._experiment.get_key()
        there = sorted(Path(self._folder).glob(f"{glob.escape(key)}*.zip"))
        return str(there[0] if there else Path(self._folder) / f"{key}.zip")

    def log(self, figures: Iterable[Figures]) -> None:
        """At the place of the series as the step."""
        for one in figures:
            self._experiment.log_metrics(one.named(), step=one.position)

    def remark_on(self, remark: Remark) -> None:
        """A text."""
        self._experiment.log_text(remark.text, step=remark.number, metadata={"kind": "warning"})

    def conclude(self, concluded: Concluded) -> None:
        """Others, headline figures, and the documents as assets."""
        said = {
            "verdict": concluded.verdict,
            "verdict_reason": concluded.reason,
            "exit_code": concluded.exit_code,
        }
        self._experiment.log_others(said)
        self._experiment.log_metrics({f"summary/{name}": value for name, value in concluded.figures.items()}, step=0)
        for path in documents(concluded):
            self._experiment.log_asset(str(path), file_name=path.name)

    def close(self, exit_code: int | None) -> None:
        """Returns when all is sent, or in the archive."""
        if self._experiment is not None:
            if exit_code is None:
                self._experiment.log_other("verdict", "lost: the command ended before the run did")
            self._experiment.end()


_AUTOMATIC = (
    "log_code",
    "log_graph",
    "parse_args",
    "log_git_metadata",
    "log_git_patch",
    "log_env_details",
    "log_env_gpu",
    "log_env_host",
    "log_env_cpu",
    "log_env_network",
    "log_env_disk",
    "auto_output_logging",
    "auto_param_logging",
    "auto_metric_logging",
    "auto_log_co2",
)
