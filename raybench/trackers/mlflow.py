"""MLflow: a run of the experiment that MLFLOW_EXPERIMENT_NAME or MLFLOW_EXPERIMENT_ID names, at MLFLOW_TRACKING_URI."""

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from raybench.trackers.base import Begun, Concluded, Figures, Remark, documents

_MOST_METRICS = 1000  # of one request, by MLflow's REST API
_MOST_PARAMETERS = 100
# The client's own patience is some minutes a request; what waits here is one process that nothing else waits for, and
# the end of a run, which has its limit. Whoever sets these is obeyed.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}


class Mlflow:
    """By the client's own class, which keeps no state of its own in the process."""

    def __init__(self) -> None:
        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
        import mlflow

        self.where = ""
        self.remark = ""
        self._mlflow: Any = mlflow
        self._client: Any = mlflow.MlflowClient()
        self._run_id = ""

    def begin(self, begun: Begun) -> None:
        """Make the experiment where it is not there, and a run in it; MLFLOW_RUN_ID goes on with that one."""
        known = os.environ.get("MLFLOW_RUN_ID")
        run = self._client.get_run(known) if known else self._new_run(begun)
        self._run_id = run.info.run_id
        entities = self._mlflow.entities
        rows = [entities.Param(name, value) for name, value in begun.settings.items()]
        for first in range(0, len(rows), _MOST_PARAMETERS):
            self._client.log_batch(self._run_id, params=rows[first : first + _MOST_PARAMETERS])
        uri = self._mlflow.get_tracking_uri()
        self.where = f"{uri} experiment {run.info.experiment_id}, run {self._run_id}"

    def _new_run(self, begun: Begun) -> Any:
        tags = {"raybench.command": begun.command, "raybench.run_id": begun.run_id, "raybench.folder": begun.folder}
        if begun.group:
            tags["raybench.study"] = begun.group
        name = os.environ.get("MLFLOW_RUN_NAME") or begun.run_id
        return self._client.create_run(self._experiment(begun.project), run_name=name, tags=tags)

    def _experiment(self, default: str) -> str:
        known = os.environ.get("MLFLOW_EXPERIMENT_ID")
        if known:
            return known
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or default
        found = self._client.get_experiment_by_name(name)
        try:
            return str(found.experiment_id if found else self._client.create_experiment(name))
        except self._mlflow.exceptions.MlflowException:  # another run made it in the same moment
            found = self._client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)

    def log(self, figures: Iterable[Figures]) -> None:
        """Many at a time: each request is a round trip."""
        rows = [
            self._metric(name, value, one.at, one.position) for one in figures for name, value in one.named().items()
        ]
        self._log(rows)

    def _metric(self, name: str, value: float, at: float, step: int) -> Any:
        return self._mlflow.entities.Metric(name, value, int(at * 1000), step)

    def _log(self, rows: Sequence[Any]) -> None:
        for first in range(0, len(rows), _MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=rows[first : first + _MOST_METRICS])

    def remark_on(self, remark: Remark) -> None:
        """A tag each: MLflow has no log of texts."""
        self._client.set_tag(self._run_id, f"raybench.warning.{remark.number:03d}", remark.text)

    def conclude(self, concluded: Concluded) -> None:
        """Tags, headline figures, and the documents as artifacts."""
        self._client.set_tag(self._run_id, "raybench.verdict", concluded.verdict)
        self._client.set_tag(self._run_id, "raybench.verdict_reason", concluded.reason)
        self._client.set_tag(self._run_id, "raybench.exit_code", str(concluded.exit_code))
        now = time.time()
        self._log([self._metric(f"summary/{name}", value, now, 0) for name, value in concluded.figures.items()])
        for path in documents(concluded):
            self._client.log_artifact(self._run_id, str(path), "raybench")

    def close(self, exit_code: int | None) -> None:
        """FINISHED where all was measured, whatever it says of the cluster; FAILED else."""
        if self._run_id:
            state = "KILLED" if exit_code is None else "FINISHED" if exit_code in (0, 1) else "FAILED"
            self._client.set_terminated(self._run_id, state)
