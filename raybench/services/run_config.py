"""What a run is asked for: the options of its command over those of a configuration file."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from raybench.benchmarks.registry import workload_of
from raybench.benchmarks.training.options import STRATEGIES
from raybench.config import RunConfig, load_config
from raybench.errors import unknown_name


def workload_config(kind: str, path: str | None, options: Mapping[str, Any]) -> RunConfig:
    """A run of one kind of workload: its own ``options`` and those of every run, over the file at ``path``.

    Raises UsageError as ``load_config`` does.
    """
    return load_config(path, {**_divided(kind, options), "suite": kind})


def training_config(path: str | None, options: Mapping[str, Any], strategies: str | None = None) -> RunConfig:
    """A run that trains by ``strategies``, a comma list; None: those that the file names, else ``ddp``.

    Raises UsageError as ``load_config`` does, and for a strategy that there is not.
    """
    settings = _divided("training", options)
    if strategies is not None:
        settings["suite"] = _suite_of(strategies)
    config = load_config(path, settings)
    if config.suite == RunConfig().suite:  # neither the command line nor a file names a strategy
        config = replace(config, suite="ddp")
    _suite_of(config.suite)
    return config


def _divided(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of every run, and below the workload's kind its own."""
    own = {field.name for field in fields(workload_of(kind).options)}  # type: ignore[arg-type]  # None has no command
    settings = {name: value for name, value in options.items() if name not in own}
    return {**settings, kind: {name: value for name, value in options.items() if name in own}}


def _suite_of(strategies: str) -> str:
    """The benchmarks of a comma list of strategies. Raises UsageError for one that there is not."""
    names = [part.strip() for part in strategies.split(",")]
    for name in names:
        if name not in STRATEGIES:
            raise unknown_name("strategy", name, STRATEGIES)
    return ",".join(names)
