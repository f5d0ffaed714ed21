"""What to train and how, as data that travels from the command line to every rank. No torch here."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from raybench.errors import UsageError, unknown_value

Dtype = Literal["float32", "bfloat16", "float16", "float8"]
Optimizer = Literal["adamw", "adam", "sgd"]
Sharding = Literal["full", "grad-op", "hybrid"]
Adapter = Literal["own", "peft"]
Schedule = Literal["constant", "cosine", "linear"]
Hook = Literal["none", "fp16", "bf16", "powersgd"]
STRATEGIES = ("ddp", "fsdp", "lora", "qlora")
MADE_DATA = ("random", "spiral", "text")  # any other data is a file or a folder
SPIRAL_INPUTS, SPIRAL_CLASSES = 2, 3
SHORT_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8"}

_LEAST = {
    "batch_size": 1,
    "sequence_length": 2,
    "accumulate": 1,
    "steps": 1,
    "warmup_steps": 0,
    "lora_rank": 1,
    "lora_alpha": 1,
    "layers": 1,
    "hidden_size": 1,
    "heads": 1,
    "kv_heads": 1,
    "intermediate_size": 1,
    "vocabulary": 2,
    "bucket_mib": 1,
    "powersgd_rank": 1,
    "overlap_steps": 0,
    "seed": 0,
    "data_workers": 0,
    "eval_every": 0,
    "lr_warmup_steps": 0,
}
_MOST = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """A training benchmark but for its strategy. None: what suits the model, or the device.

    ``batch_size`` is samples a rank and micro-batch; a step has ``accumulate`` of those. ``sharding`` is of fsdp only:
    ``grad-op`` keeps the gathered parameters between forward and backward, ``hybrid`` shards within a node and
    replicates over nodes; with ``reduce_each`` gradients are reduced after each micro-batch, else added up whole and
    reduced after the last. ``comm_hook`` says what gradients are sent as: ``hook.py``. ``adapter`` is of lora and
    qlora: raybench's own, or peft's with bitsandbytes' 4-bit base; ``lora_targets``: the linear layers that have one,
    by the names that Llama's code gives them; none: all. ``model_name``: what the model is called where a config.json
    named it, and ``model`` is the preset that has its build.
    ``data``: random samples, which nothing can be learned from; a set of MADE_DATA; or a file or folder of text, read
    byte by byte, or as tokens of the ``tokenizer``, a tokenizer.json or the folder of one. Of it
    ``validation_share`` is held out and evaluated every ``eval_every`` timed steps (0: never, None: ten times) and at
    the end. ``lr_warmup_steps`` count from the first step, before the timed ones.
    ``overlap_steps`` pairs of steps with and without synchronisation measure what of the
    communication is exposed; 0 leaves that out.
    """

    model: str = "tiny"
    model_name: str | None = None
    hidden_dims: tuple[int, ...] = (64, 32, 16)
    layers: int | None = None
    hidden_size: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    intermediate_size: int | None = None
    vocabulary: int | None = None
    weights: str | None = None
    batch_size: int = 8
    sequence_length: int | None = None
    dtype: str | None = None
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    accumulate: int = 1
    checkpoint_activations: bool = False
    compile: bool = False
    sharding: str = "full"
    reduce_each: bool = False
    bucket_mib: int = 25
    comm_hook: str = "none"
    powersgd_rank: int = 1
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_targets: tuple[str, ...] = ()
    adapter: str = "own"
    steps: int = 20
    warmup_steps: int = 5
    overlap_steps: int = 10
    profile: bool = False
    seed: int = 0
    data: str = "random"
    tokenizer: str | None = None
    data_workers: int = 0
    validation_share: float = 0.1
    eval_every: int | None = None
    lr_schedule: str = "constant"
    lr_warmup_steps: int = 0
    clip_grad_norm: float | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= _MOST:
                raise UsageError(f"--{_flag(name)} is {value}; it must be from {least} to {_MOST}")
        if self.weights is not None and not self.weights.strip():
            raise UsageError("--weights is empty; name the folder with the model's *.safetensors")
        if not 0 < self.learning_rate < 1e6:
            raise UsageError(f"--learning-rate is {self.learning_rate}; it must be above 0, such as 0.001")
        if not self.hidden_dims or any(not 1 <= width <= _MOST for width in self.hidden_dims):
            raise UsageError("--hidden-dims must be widths of at least 1, such as 64 32 16")
        self._check_learning()
        _check_choice("dtype", self.dtype, (*get_args(Dtype), None))
        _check_choice("optimizer", self.optimizer, get_args(Optimizer))
        _check_choice("sharding", self.sharding, get_args(Sharding))
        _check_choice("adapter", self.adapter, get_args(Adapter))
        _check_choice("comm_hook", self.comm_hook, get_args(Hook))

    def _check_learning(self) -> None:
        if not self.data.strip():
            raise UsageError(f"--data is empty; take {', '.join(MADE_DATA)}, or name a file or a folder of text")
        if not 0 < self.validation_share <= 0.5:
            raise UsageError(f"--validation-share is {self.validation_share}; hold out a share up to 0.5, such as 0.1")
        if self.clip_grad_norm is not None and not 0 < self.clip_grad_norm < 1e6:
            raise UsageError(f"--clip-grad-norm is {self.clip_grad_norm}; it must be above 0, such as 1.0")
        if self.data == "random" and (self.data_workers or self.eval_every):
            given = "--data-workers" if self.data_workers else "--eval-every"
            raise UsageError(f"{given} is of data that can be learned; take --data text, --data spiral, or a file")
        if self.tokenizer is not None and self.data in ("random", "spiral"):
            raise UsageError(f"--tokenizer is of text, and --data is {self.data}; take --data text, or a file")
        _check_choice("lr_schedule", self.lr_schedule, get_args(Schedule))

    @property
    def called(self) -> str:
        """What the model is called in labels and messages."""
        return self.model_name or self.model

    @property
    def steps_between_evaluations(self) -> int | None:
        """Timed steps from one evaluation to the next; None where there is none."""
        if self.data == "random" or self.eval_every == 0:
            return None
        return self.eval_every or max(self.steps // 10, 1)

    def parameters(self) -> dict[str, Any]:
        """What a result records of it."""
        return asdict(self) | {"hidden_dims": list(self.hidden_dims), "lora_targets": list(self.lora_targets)}


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _check_choice(name: str, value: str | None, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise unknown_value(name, value, choices)


def plain_dtype(text: str | None) -> str | None:
    """``bf16`` and ``bfloat16`` alike as ``bfloat16``."""
    return None if text is None else SHORT_DTYPES.get(text, text)


def dims_of(text: str) -> tuple[int, ...]:
    """Widths from ``64 32 16`` or ``64,32,16``. Raises UsageError for anything else."""
    parts = [part for part in re.split(r"[\s,]+", text.strip()) if part]
    if not parts or not all(re.fullmatch("[0-9]{1,9}", part) for part in parts):
        raise UsageError(f"--hidden-dims '{text}' is not a list of widths, such as 64,32,16")
    return tuple(int(part) for part in parts)


def targets_of(text: str) -> tuple[str, ...]:
    """Names of linear layers from ``q_proj,v_proj``. Raises UsageError for a list with an empty part."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"--lora-targets '{text}' has an empty part; write names such as q_proj,v_proj")
    return names


def normalised(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a file or the command line with short names of types written out and lists as such."""
    values = dict(settings)
    if isinstance(values.get("dtype"), str):
        values["dtype"] = plain_dtype(values["dtype"])
    if isinstance(values.get("hidden_dims"), str):
        values["hidden_dims"] = dims_of(values["hidden_dims"])
    if isinstance(values.get("lora_targets"), str):
        values["lora_targets"] = targets_of(values["lora_targets"])
    return values
