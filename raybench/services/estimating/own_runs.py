"""Trainings that somebody ran, as what they say of another: by ``--measured``, and by results of ``raybench train``."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from raybench.benchmarks.training.models.shapes import SIZE_FIELDS
from raybench.benchmarks.training.options import SHORT_DTYPES
from raybench.documents.estimate import MeasuredSetting
from raybench.documents.run.training.point import TrainingPoint
from raybench.errors import UsageError
from raybench.hardware.gpus import find_gpu, gpu_for
from raybench.hardware.nodes import machine_named
from raybench.services.estimating.measured_setting import Setting, failure, gpu_names, length_of, model_of, strategy_of
from raybench.services.estimating.request import estimate_request

if TYPE_CHECKING:
    from raybench.performance_model.estimate.answer import Estimate
    from raybench.performance_model.request.own_runs import OwnRun, Told
    from raybench.services.estimating.options import EstimateOptions

_MOST_TIMES = 10.0  # as long as told, or as short: seconds for milliseconds, a micro-batch for a step
_NO_COST = {"price": None, "prices": None, "currency": "USD", "epoch_samples": None}
_NODE = ("gpus_per_node", "nics", "nic_gbit", "nic_gb_per_s", "node_gb_per_s", "bandwidth", "latency_us")
_MACHINE = ("gpu", "node_type", "memory", "power_limit", *_NODE)  # as asked, unless the run's was another
_MODEL = (*SIZE_FIELDS.values(), "mtp_layers")
_LORA_OPTIONS: dict[str, Any] = {"lora_targets": None, "lora_dropout": None, "qlora": False, "base_dtype": None}
_NOT_SAID = ("strategy", "batch_size")  # of a plan: each way has its own
_METHODS = ("lora", "qlora")
_SHORT = {written_out: short for short, written_out in SHORT_DTYPES.items()}
_FAULTY = ", which found a problem that is in its figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A training that was run: options in which it is not as asked, and one figure of it. ``text``: as it was given."""

    text: str
    given: tuple[tuple[str, Any], ...]
    step_seconds: float | None = None
    tokens_per_second: float | None = None
    tokens_per_second_per_rank: float | None = None

    def seconds(self, tokens: int, ranks: int) -> float:
        """Of a step over so many tokens and ranks."""
        if self.step_seconds is not None:
            return self.step_seconds
        rate = self.tokens_per_second or (self.tokens_per_second_per_rank or math.nan) * ranks
        return tokens / rate


class FarOffError(UsageError):
    """A run that took so much longer or shorter than told that it is another training, or no step of one.

    ``fact``: that, without what to do.
    """

    def __init__(self, fact: str) -> None:
        super().__init__(
            f"{fact}; took is of a whole step in seconds, tokens-per-second of all ranks: look whether --batch-size, "
            "--gradient-accumulation-steps and all else that differs is said"
        )
        self.fact = fact


def own_runs_of(
    options: "EstimateOptions", settings: Sequence[Setting], *, of_plan: bool = False
) -> "tuple[OwnRun, ...]":
    """What the runs that are given say of others. Raises UsageError for one of which no step time can be told."""
    given = (_given_run(run, options, of_plan=of_plan) for run in options.measured)
    trained = (_trained_run(setting, options) for setting in settings)
    found = (*given, *(run for run in trained if run is not None and not isinstance(run, FarOffError)))
    return tuple({(run.seconds, run.told): run for run in reversed(found)}.values())[::-1]  # a copy counts once


def with_corrections(
    told: Sequence[MeasuredSetting],
    runs: "Sequence[OwnRun]",
    settings: Sequence[Setting],
    options: "EstimateOptions",
) -> tuple[MeasuredSetting, ...]:
    """What became of each result, where trainings of other settings correct the estimate, or are too far off it."""
    texts = {run.text.removesuffix(_FAULTY) for run in runs}
    found = ((one.run.run_id, _trained_run(one, options)) for one in settings)
    far_off = {run_id: one.fact.partition(": ")[2] for run_id, one in found if isinstance(one, FarOffError)}
    return tuple(_with_correction(one, texts, far_off) for one in told)


def _with_correction(one: MeasuredSetting, texts: set[str], far_off: Mapping[str, str]) -> MeasuredSetting:
    if one.kind != "train" or one.taken:
        return one
    if one.run_id in far_off:
        return replace(
            one, why_not=f"{far_off[one.run_id]}, which no other training explains: raybench diagnose its log"
        )
    return replace(one, corrects=_name(one.run_id) in texts)


def _name(run_id: str) -> str:
    return f"run {run_id}"


def _given_run(run: MeasuredRun, options: "EstimateOptions", *, of_plan: bool) -> "OwnRun":
    given = dict(run.given)
    lacking = [name.replace("_", "-") for name in _NOT_SAID if of_plan and name not in given]
    if lacking:
        raise UsageError(f"--measured '{run.text}' does not say --{' and --'.join(lacking)}: each way has its own")
    text = "--measured " + (shlex.quote(run.text) if "'" in run.text else f"'{run.text}'")  # to be typed again
    try:
        changes: dict[str, Any] = {**_NO_COST, **_elsewhere(options, given), **_otherwise(options, given), **given}
    except UsageError as error:
        raise UsageError(f"{text}: {error}") from None
    asked = replace(options, measured=(), **changes)
    return _own_run(asked, replace(run, text=text, given=()))


def _elsewhere(options: "EstimateOptions", given: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is asked of the machine and its links where the run was on another."""
    if not given.keys() & {"gpu", "node_type"}:
        return {}
    said = replace(type(options)(), **given)
    own, asked = (machine_named(one.gpu, one.node_type) for one in (said, options))
    if own[0] == asked[0] and own[1] in (None, asked[1]):
        return {}
    return {**dict.fromkeys(_MACHINE), "result_file": ()}


def _otherwise(options: "EstimateOptions", given: Mapping[str, Any]) -> dict[str, Any]:
    """Without sizes of the model that is asked about where the run's was another, and of LoRA where it had none."""
    own = replace(options, **given)
    has_none = "lora_rank" in given and own.lora_rank == 0
    return {**(dict.fromkeys(_MODEL) if own.model != options.model else {}), **(_LORA_OPTIONS if has_none else {})}


def _trained_run(setting: Setting, options: "EstimateOptions") -> "OwnRun | FarOffError | None":
    """A training by ``raybench train`` on GPUs, whatever its setting; None where no step time is told of it."""
    found = None if failure(setting) else _options_of(setting, options)
    if found is None or not isinstance(setting.point, TrainingPoint):
        return None
    text = _name(setting.run.run_id) + _FAULTY * (setting.run.conclusion.verdict == "critical")
    try:
        run = MeasuredRun(text=text, given=(), step_seconds=setting.point.seconds.median)
        return _own_run(found, run)
    except FarOffError as error:
        return error
    except UsageError:  # an option or a GPU that is not known: the run is told as not used
        return None


def _options_of(setting: Setting, asked: "EstimateOptions") -> "EstimateOptions | None":
    """As ``raybench estimate`` would be asked for it; None where the result does not say all of it."""
    model, point = model_of(setting), setting.point
    gpus = {gpu.name for name in gpu_names(setting) if (gpu := find_gpu(name)) is not None}
    if model is None or not isinstance(point, TrainingPoint) or point.known_facts.gpu is None or len(gpus) != 1:
        return None
    name, nodes = str(setting.parameter("strategy") or setting.benchmark.name), len(setting.run.cluster.nodes)
    if setting.parameter("comm_hook") not in (None, "none"):
        return None
    per_node = max(1, setting.run.cluster.world_size // max(1, nodes))
    own = _machine_of(next(iter(gpus)), per_node, asked)
    sizes = {field: setting.parameter(flag) for flag, field in SIZE_FIELDS.items()}
    targets = setting.parameter("lora_targets")
    return type(asked)(
        model=str(setting.parameter("model")),
        **sizes,
        world_size=setting.run.cluster.world_size,
        **own,
        strategy=strategy_of(setting),
        batch_size=int(setting.parameter("batch_size") or point.batch_size),
        accumulation=int(setting.parameter("accumulate") or 1),
        sequence_length=length_of(setting, model),
        reduce_each=bool(setting.parameter("reduce_each")),
        dtype=_SHORT.get(str(point.known_facts.dtype), "auto"),
        optimizer=str(setting.parameter("optimizer") or "adamw"),  # type: ignore[arg-type]  # checked as an option is
        activation_checkpointing=bool(setting.parameter("checkpoint_activations")),
        compile=bool(setting.parameter("compile")),
        kernels="plain",
        loss="plain",
        lora_rank=int(setting.parameter("lora_rank") or 0) if name in _METHODS else 0,
        lora_targets=",".join(map(str, targets)) if isinstance(targets, list) and targets else None,
        qlora=name == "qlora",
    )


def _machine_of(gpu: str, per_node: int, asked: "EstimateOptions") -> dict[str, Any]:
    """That of a result: the one that is asked about where its GPU is the same, and it has as many in a node."""
    own: dict[str, Any] = {"gpu": gpu, "gpus_per_node": per_node}
    known, node = machine_named(asked.gpu, asked.node_type)
    if known != gpu_for(gpu) or (node is not None and per_node > node.gpus):
        return own
    names = ("node_type", "power_limit", "result_file", *_NODE)
    return {**{name: getattr(asked, name) for name in names}, **own}


@lru_cache
def _own_run(options: "EstimateOptions", run: MeasuredRun) -> "OwnRun":
    """What it says of others. Raises UsageError for one of which no step time can be told, or one that is mistyped."""
    from raybench.performance_model.estimate.estimate import estimate
    from raybench.performance_model.estimate.said import said_requests
    from raybench.performance_model.request.own_runs import OwnRun
    from raybench.performance_model.request.taken import checked, with_program

    try:
        request = with_program(checked(estimate_request(options)))
        found = [estimate(one, alone=False) for one in (request, *said_requests(request))]
    except UsageError as error:
        raise UsageError(f"{run.text}: {error}") from None
    told = tuple(one for one in map(_told, found) if one is not None)
    if len(told) < len(found):
        lacking = "it is of a given --efficiency" if options.efficiency else "; ".join(found[0].unknown)
        raise UsageError(f"{run.text}: no step time is told of it to compare with: {lacking}")
    seconds = run.seconds(found[0].samples_per_step * request.setup.sequence_length, request.layout.world_size)
    own = OwnRun(text=run.text, seconds=seconds, told=told)
    if not 1 / _MOST_TIMES < own.times < _MOST_TIMES:
        took, times, likely = (_in_digits(value) for value in (seconds, own.times, told[0].seconds))
        raise FarOffError(f"{run.text}: a step of {took} s is {times} times what is told of it, {likely} s")
    return own


def _in_digits(value: float) -> str:
    """Three of them at least, and no power of ten of what is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _told(found: "Estimate") -> "Told | None":
    from raybench.performance_model.request.own_runs import Told

    traits, seconds, bounds = found.traits, found.likely_step_seconds, found.step_seconds
    if traits is None or seconds is None or bounds is None or bounds[0] == bounds[1]:
        return None
    return Told(said=found.said, traits=traits, seconds=seconds, half_width=math.log(bounds[1] / bounds[0]) / 2)
