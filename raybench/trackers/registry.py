"""Every tracker there is: what ``--track`` takes, where it stands, and what it needs."""

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from raybench.errors import UsageError, unknown_name
from raybench.installation import install_advice
from raybench.trackers.base import Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One tracker: ``module:Class``, its ``library`` (None where none is needed), and its extra of raybench.

    ``secrets``: variables whose values its client may put into an error.
    """

    title: str
    path: str
    library: str | None = None
    extra: str = ""
    secrets: tuple[str, ...] = ()


KINDS: dict[str, Kind] = {
    "tensorboard": Kind(title="TensorBoard", path="raybench.trackers.tensorboard:TensorBoard"),
    "mlflow": Kind(
        title="MLflow",
        path="raybench.trackers.mlflow:Mlflow",
        library="mlflow",
        extra="mlflow",
        secrets=("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME"),
    ),
    "wandb": Kind(
        title="Weights & Biases",
        path="raybench.trackers.wandb:WeightsAndBiases",
        library="wandb",
        extra="wandb",
        secrets=("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE"),
    ),
    "comet": Kind(
        title="Comet",
        path="raybench.trackers.comet:Comet",
        library="comet_ml",
        extra="comet",
        secrets=("COMET_API_KEY",),
    ),
}


def names_of(given: Sequence[str]) -> tuple[str, ...]:
    """Names of trackers, each once. An item may be a comma list. Raises UsageError for one that there is not.

    One that names none, such as a variable that is empty, is refused.
    """
    if any(not text.strip(", ") for text in given):
        raise UsageError(f"--track is empty; name one of {', '.join(KINDS)}, or leave it out")
    names = tuple(dict.fromkeys(part.strip() for text in given for part in text.split(",") if part.strip()))
    for name in names:
        if name not in KINDS:
            raise unknown_name("tracker", name, KINDS)
    return names


def check_trackers(given: Sequence[str]) -> None:
    """Raises UsageError where the client of a tracker is not installed here, with what to install."""
    for name in names_of(given):
        kind = KINDS[name]
        if kind.library is not None and importlib.util.find_spec(kind.library) is None:
            raise UsageError(f"--track {name} needs {kind.library}: {install_advice(kind.extra)}")


def tracker_of(name: str) -> Tracker:
    """The tracker, its client imported."""
    module, _, attribute = KINDS[name].path.partition(":")
    return cast("Tracker", getattr(importlib.import_module(module), attribute)())
