"""What an earlier ``train`` or ``memory`` measured, why it cannot stand for a way to train, how it differs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from raybench.benchmarks.training.models.shapes import LONGEST_DEFAULT, SIZE_FIELDS
from raybench.benchmarks.training.options import SHORT_DTYPES, TrainingOptions
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.result import RunResult
from raybench.documents.run.training.point import TrainingPoint
from raybench.errors import UsageError
from raybench.hardware.gpus import find_gpu
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.sharding import shard_count
from raybench.performance_model.setup.element_types import FP32_BYTES

if TYPE_CHECKING:
    from raybench.performance_model.request.request import EstimateRequest

_SHARDINGS = {"full": "fsdp", "grad-op": "fsdp-grad-op", "hybrid": "fsdp-hybrid"}
_USUAL = TrainingOptions()
_USUAL_BUCKET_MIB, _MEMORY_RANK = _USUAL.bucket_mib, _USUAL.lora_rank  # a memory run has no other rank
Kind = Literal["train", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A point of a run, with the parameters that it was measured with; ``point`` None where there is none."""

    kind: Kind
    run: RunResult
    benchmark: BenchmarkResult
    point: TrainingPoint | MemoryPoint | None

    def parameter(self, name: str) -> Any:
        """One of those that the benchmark was asked for; None where it is not recorded."""
        return self.benchmark.parameters.get(name)


def settings_of(run: RunResult) -> tuple[Setting, ...]:
    """Every training and memory of a run."""
    kinds: dict[str, Kind] = {"training": "train", "memory": "memory"}
    found = []
    for benchmark in run.benchmarks:
        points = [one for one in benchmark.workload if isinstance(one, TrainingPoint | MemoryPoint)]
        if benchmark.kind in kinds:
            kind = kinds[benchmark.kind]
            found += [Setting(kind=kind, run=run, benchmark=benchmark, point=one) for one in points or (None,)]
    return tuple(found)


def refusal(setting: Setting, request: "EstimateRequest") -> str | None:
    """Why nothing of it can be taken for a question about this GPU; None where it can."""
    return failure(setting) or _other_gpu(setting, request)


def failure(setting: Setting) -> str | None:
    """Why its figures are of no use, whatever is asked; None where they are."""
    run, point, benchmark = setting.run, setting.point, setting.benchmark
    if run.cluster.emulated or (isinstance(point, MemoryPoint) and point.emulated):
        return "emulated: no device's own figures"
    if point is None or point.failed is not None or "failed" in (run.status, benchmark.status):
        return f"the run failed: {(point and point.failed) or benchmark.reason or 'it has no figures'}"
    if run.status != "complete" or benchmark.status != "complete" or not point.complete:
        return "a partial run"
    if point.wrong is not None or benchmark.wrong or run.wrong:
        return "the run failed verification"
    return None


def _other_gpu(setting: Setting, request: "EstimateRequest") -> str | None:
    names = gpu_names(setting)
    if isinstance(setting.point, TrainingPoint) and setting.point.known_facts.gpu is None:
        return "measured on a CPU"
    if request.gpu is None:
        return "the GPU that is asked about is not known; give --gpu"
    if not names:
        return "the run does not say on which GPU"
    others = sorted(name for name in names if find_gpu(name) != request.gpu)
    return f"measured on {' and '.join(others)}, asked of {request.gpu.name}" if others else None


def gpu_names(setting: Setting) -> set[str]:
    """Of the nodes that it ran on, and of the rank that says so."""
    names = {name for node in setting.run.cluster.nodes for name in node.gpu_names}
    own = setting.point.known_facts.gpu if isinstance(setting.point, TrainingPoint) else None
    return names | {own} if own else names


def differences(setting: Setting, request: "EstimateRequest", *, same_batch: bool = True) -> tuple[str, ...]:
    """What was measured otherwise than it is asked, each in a few words; nothing where it is the very setting."""
    parts = [*_model_differences(setting, request), *_setup_differences(setting, request)]
    own = _of_training if setting.kind == "train" else _of_memory
    parts += own(setting, request)
    batch = _batch_difference(setting, request) if same_batch else ""
    return tuple([*parts, batch] if batch else parts)


def _model_differences(setting: Setting, request: "EstimateRequest") -> Iterator[str]:
    model = model_of(setting)
    name = str(setting.benchmark.model)
    if model is None:
        yield f"model {name}"
        return
    if _shape(model) != _shape(request.model):
        sizes = "" if name != request.model.name else " in other sizes"
        yield f"model {name}{sizes}, asked of {request.model.name}"
    length = length_of(setting, model)
    if length != request.setup.sequence_length:
        yield f"sequence length {length}, asked {request.setup.sequence_length}"


def model_of(setting: Setting) -> Transformer | None:
    """None for what is no transformer, or none that is known here."""
    changes = {field: size for flag, field in SIZE_FIELDS.items() if (size := setting.parameter(flag)) is not None}
    try:
        return preset_named(str(setting.parameter("model"))).resized(**changes)
    except (UsageError, TypeError):
        return None


def _shape(model: Transformer) -> Transformer:
    """What tells models apart: not the name, nor the context for which a length is given."""
    heads = 0 if model.kv_heads == model.heads else model.kv_heads
    width = 0 if model.head_size * model.heads == model.hidden else model.head_width
    return replace(model, name="", context=1, kv_heads=heads, head_width=width)


def length_of(setting: Setting, model: Transformer) -> int | None:
    """Tokens of a sample."""
    if isinstance(setting.point, TrainingPoint) and setting.point.tokens_per_sample:
        return setting.point.tokens_per_sample
    length = setting.parameter("sequence_length")
    return length if isinstance(length, int) else min(model.context, LONGEST_DEFAULT)


def _setup_differences(setting: Setting, request: "EstimateRequest") -> Iterator[str]:
    setup, layout = request.setup, request.layout
    recorded = SHORT_DTYPES.get(request.dtype, request.dtype)
    dtype = setting.parameter("dtype")
    if isinstance(setting.point, TrainingPoint):
        dtype = setting.point.known_facts.dtype or dtype
    if dtype is None:  # what is left to the run suits its GPU
        dtype = "bfloat16" if request.gpu and request.gpu.peak_tflops("bf16") else "float32"
    if dtype != recorded:
        yield f"dtype {dtype}, asked {recorded}"
    for text, measured, asked in (
        ("optimizer", setting.parameter("optimizer"), setup.optimizer),
        ("activation checkpointing", bool(setting.parameter("checkpoint_activations")), setup.checkpointing),
        ("compiled", bool(setting.parameter("compile")), bool(setup.compiled)),
    ):
        if measured != asked:
            yield f"{text} {_word(measured)}, asked {_word(asked)}"
    asked_otherwise = (
        ("a model that is cut", layout.is_cut),
        ("fused kernels", setup.kernels != "plain"),
        (f"a {setup.loss} loss", request.loss_known and setup.loss != "plain"),
        ("selective checkpointing", setup.selective or bool(setup.recompute_modules)),
        ("dropout", request.model.drops and "drops" in request.said),
        ("dropout with LoRA", setup.adapter_dropout and "adapter_dropout" in request.said),
        ("offload", setup.offload != "none"),
        ("attention without flash", not setup.flash_attention),
        ("masked attention", setup.masked_attention),
        ("offloaded activations", setup.offloads_activations),
        (f"moments of {setup.moment_bytes} bytes", setup.moment_bytes not in (0, FP32_BYTES)),
        ("a base in 8 bits", setup.packing == "8bit"),
        ("a base in fp32", setup.frozen_bytes > setup.compute_bytes),
        (f"parameters of {setup.parameter_bytes} bytes", setup.parameter_bytes != FP32_BYTES),
    )
    yield from (f"asked with {text}" for text, is_so in asked_otherwise if is_so)


def _word(value: Any) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _of_training(setting: Setting, request: "EstimateRequest") -> Iterator[str]:
    cluster, setup, layout = setting.run.cluster, request.setup, request.layout
    placed = [(cluster.world_size, "ranks", layout.world_size), (len(cluster.nodes), "nodes", layout.nodes)]
    yield from (f"{measured} {text}, asked {asked}" for measured, text, asked in placed if measured != asked)
    name = str(setting.parameter("strategy") or setting.benchmark.name)
    strategy = strategy_of(setting)
    yield from _method_difference(name, request)
    if strategy != setup.strategy:
        yield f"strategy {name if name != 'fsdp' else strategy}, asked {setup.strategy}"
    if setup.lora_rank and name in ("lora", "qlora") and setting.parameter("lora_rank") != setup.lora_rank:
        yield f"LoRA rank {setting.parameter('lora_rank')}, asked {setup.lora_rank}"
    if setup.lora_rank and name in ("lora", "qlora"):
        yield from _target_difference(setting.parameter("lora_targets"), setup.lora_targets)
    if strategy == setup.strategy != "ddp" and request.accumulation > 1:
        yield from _reduction_difference(bool(setting.parameter("reduce_each")), not setup.whole_gradients)
    hook, bucket = setting.parameter("comm_hook"), setting.parameter("bucket_mib")
    if hook not in (None, "none"):
        yield f"gradients sent by the hook {hook}"
    if strategy == "ddp" and bucket not in (None, _USUAL_BUCKET_MIB):
        yield f"buckets of {bucket} MiB"
    if request.power_watts is not None:
        yield f"asked with {request.power_watts:g} W a GPU"


def strategy_of(setting: Setting) -> str:
    """By the estimate's name, of a training; empty for a sharding that is not known."""
    name = str(setting.parameter("strategy") or setting.benchmark.name)
    return _SHARDINGS.get(str(setting.parameter("sharding") or "full"), "") if name == "fsdp" else "ddp"


def _target_difference(measured: Any, asked: Sequence[str]) -> Iterator[str]:
    """Of LoRA; a result that does not name the linear layers adapts every one."""
    names = measured if isinstance(measured, list) else []
    if sorted(map(str, names)) != sorted(asked):
        yield f"LoRA of {_layers(names)}, asked {_layers(asked)}"


def _layers(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names)) or "every linear layer"


def _reduction_difference(measured_each: bool, asked_each: bool) -> Iterator[str]:
    """Of shards that accumulate; a result that does not say it is of a time when they reduced last alone."""
    if asked_each and not measured_each:
        yield "gradients reduced after the last micro-batch, asked after each (--reduce-last)"
    elif measured_each and not asked_each:
        yield "gradients reduced after each micro-batch, asked after the last (--reduce-each)"


def _method_difference(name: str, request: "EstimateRequest") -> Iterator[str]:
    setup = request.setup
    asked = "qlora" if setup.quantized else "lora" if setup.lora_rank else "all parameters"
    measured = name if name in ("lora", "qlora") else "all parameters"
    if measured != asked:
        yield f"{measured} trained, asked {asked}"


def _of_memory(setting: Setting, request: "EstimateRequest") -> Iterator[str]:
    """It has neither DDP's buckets nor gradients that are kept from one micro-batch to the next."""
    setup, layout = request.setup, request.layout
    name = str(setting.parameter("strategy") or "single")
    yield from _method_difference(name, request)
    if name == "fsdp":
        strategy = _SHARDINGS.get(str(setting.parameter("sharding") or "full"), "")
        shards = setting.parameter("shards") or setting.run.cluster.world_size
        if strategy != setup.strategy:
            yield f"strategy {strategy}, asked {setup.strategy}"
        elif shards != shard_count(setup, layout):
            yield f"{shards} shards, asked {shard_count(setup, layout)}"
    elif setup.strategy != "ddp" or layout.world_size > 1:
        yield f"one rank without DDP, asked {setup.strategy} on {layout.world_size} ranks"
    if request.accumulation > 1:
        yield f"1 micro-batch a step, asked {request.accumulation}"
    if name in ("lora", "qlora") and setup.lora_rank != _MEMORY_RANK:
        yield f"LoRA rank {_MEMORY_RANK}, asked {setup.lora_rank}"
    if name in ("lora", "qlora"):
        yield from _target_difference(None, setup.lora_targets)


def _batch_difference(setting: Setting, request: "EstimateRequest") -> str:
    asked, times = request.setup.batch_size, request.accumulation
    if isinstance(setting.point, MemoryPoint):
        sizes = [use.batch_size for use in setting.point.uses]
        listed = ", ".join(map(str, sizes)) or "none"
        return "" if asked in sizes else f"batch sizes {listed}, asked {asked}"
    measured = setting.parameter("batch_size"), setting.parameter("accumulate") or 1
    if measured == (asked, times):
        return ""
    return f"{measured[1]} x {measured[0]} samples a rank, asked {times} x {asked}"
