"""A real training tracked by every client, each read back by its own package: figures, settings, verdict, documents.

Skipped where a client is not installed: ``pip install '.[mlflow,wandb,comet]' tensorboard``, then ``make test-long``.
"""

import importlib.util
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raybench.trackers.registry import KINDS
from tests.command import Command, started
from tests.trackers.wandb_file import items, records

LIBRARIES = {name: kind.library or "tensorboard" for name, kind in KINDS.items()}
INSTALLED = [name for name, library in LIBRARIES.items() if importlib.util.find_spec(library)]
STEPS = 40
_TRAINING = ("train", "--nodes=1", "--gpus-per-node=1", "--model=mlp", "--data=spiral", "--batch-size=32")
_TRAINING = (*_TRAINING, "--overlap-steps=0", "--learning-rate=0.01")
pytestmark = [pytest.mark.cluster, pytest.mark.long]


def client(name: str) -> None:
    if name not in INSTALLED:
        pytest.skip(f"{LIBRARIES[name]} is not installed")


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """A training on one rank, whose losses are the result's, told to every client. Without keys, two stay offline."""
    folder = tmp_path_factory.mktemp("clients")
    arguments = [*_TRAINING, f"--steps={STEPS}"]
    environment = {
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "HOME": str(folder),  # no netrc and no configuration file with a key
    }
    names = ",".join(dict.fromkeys(["tensorboard", *INSTALLED]))
    with pytest.MonkeyPatch.context() as patch:
        for variable in [name for name in os.environ if name.startswith(("WANDB_", "COMET_", "MLFLOW_"))]:
            patch.delenv(variable)
        training = started(*arguments, "--track", names, environment=environment)
        with training as command:
            assert command.finish(180) == 0, command.errors
            yield command


def told(command: Command, name: str) -> dict[str, Any]:
    (found,) = (one for one in command.result()["trackers"] if one["tracker"] == name)
    assert found["status"] == "logged", found["problem"]
    return dict(found)


def losses(command: Command) -> list[float]:
    (benchmark,) = command.result()["benchmarks"]
    (point,) = benchmark["points"]
    return [float(loss) for loss in point["loss"]["steps"]]


def check_losses(command: Command, found: dict[int, float]) -> None:
    """One for each timed step, falling, and equal to the result's."""
    own = losses(command)
    assert len(own) == STEPS
    assert [found[step] for step in sorted(found)] == pytest.approx(own, rel=1e-6)
    assert sorted(found) == list(range(1, STEPS + 1))
    steps = [found[step] for step in sorted(found)]
    assert sum(steps[-10:]) < 0.9 * sum(steps[:10])


def test_tensorboard_reads_its_file(tracked: Command) -> None:
    client("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(told(tracked, "tensorboard")["where"])
    read.Reload()
    check_losses(tracked, {one.step: one.value for one in read.Scalars("ddp/loss")})
    assert len(read.Scalars("ddp/validation_loss")) > 2
    assert any("summary/" in tag for tag in read.Tags()["scalars"])
    (verdict,) = read.Tensors("verdict")
    assert f"**{tracked.result()['verdict']}**".encode() in verdict.tensor_proto.string_val[0]


def test_mlflow_reads_its_run(tracked: Command) -> None:
    client("mlflow")
    from mlflow import MlflowClient

    where = told(tracked, "mlflow")["where"]
    uri, run_id = where.split()[0], where.split()[-1]
    server = MlflowClient(tracking_uri=uri)
    run = server.get_run(run_id)
    assert (run.info.status, run.info.run_name) == ("FINISHED", tracked.result()["run_id"])
    assert run.data.tags["raybench.verdict"] == tracked.result()["verdict"]
    assert run.data.params["training.model"] == "mlp"
    check_losses(tracked, {one.step: one.value for one in server.get_metric_history(run_id, "ddp/loss")})
    assert server.get_metric_history(run_id, "ddp/validation_loss")
    kept = {Path(one.path).name for one in server.list_artifacts(run_id, "raybench")}
    assert {"result.json", "report.html"} <= kept


def test_wandb_kept_every_record(tracked: Command) -> None:
    client("wandb")
    found = told(tracked, "wandb")
    assert "wandb sync" in found["remark"]
    (path,) = Path(found["where"]).glob("*.wandb")
    kinds: dict[str, list[Any]] = {}
    for record in records(path):
        kind = record.WhichOneof("record_type")
        kinds.setdefault(kind, []).append(getattr(record, kind))
    rows = [items(one.item) for one in kinds["history"]]
    check_losses(tracked, {row["ddp/step"]: row["ddp/loss"] for row in rows if "ddp/loss" in row})
    assert sum("ddp/validation_loss" in row for row in rows) > 2
    (run,) = {(one.project, one.display_name) for one in kinds["run"]}
    assert run == ("raybench", tracked.result()["run_id"])
    assert items(kinds["run"][0].config.update)["training.model"] == "mlp"
    summary = {key: value for one in kinds["summary"] for key, value in items(one.update).items()}
    assert (summary["verdict"], summary["exit_code"]) == (tracked.result()["verdict"], 0)
    assert any(key.startswith("summary/") for key in summary)
    assert kinds["exit"][-1].exit_code == 0
    (artifact,) = kinds["artifact"]
    assert {"result.json", "report.html"} <= {one.path for one in artifact.manifest.contents}


def test_comet_kept_an_archive_where_it_was_said_to_be(tracked: Command) -> None:
    client("comet")
    found = told(tracked, "comet")
    assert found["remark"].endswith(f"comet upload {found['where']}")
    with zipfile.ZipFile(found["where"]) as archive:
        messages = [json.loads(line) for line in archive.read("messages.json").splitlines()]
        inside = set(archive.namelist())
        names = {json.loads(archive.read("experiment.json"))["project_name"]}
    assert names == {"raybench"}
    payloads = [(one["type"], one["payload"]) for one in messages]
    metrics = [one["metric"] for kind, one in payloads if kind == "metric_msg"]
    check_losses(tracked, {one["step"]: one["metricValue"] for one in metrics if one["metricName"] == "ddp/loss"})
    others = {one["key"]: one["value"] for kind, one in payloads if kind == "log_other"}
    assert others["verdict"] == tracked.result()["verdict"]
    kept = {one["additional_params"]["fileName"]: one["file_path"] for kind, one in payloads if kind == "file_upload"}
    assert {"result.json", "report.html"} <= set(kept)
    assert set(kept.values()) <= inside
