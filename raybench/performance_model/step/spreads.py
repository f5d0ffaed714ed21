"""How far published step times are from the fit, to either side, by the class of training.

Slow programs lie far behind the fit, and nobody is far ahead of it, so each class has a factor for either side. Within
it are 92 of 100 step times on the slow side (98 of tuned programs, 94 of compiled ones) and 97 on the fast one (96 and
99 of these), each source counted once. The fit that a source is compared with knows neither it nor any of its family
(``python -m tests.performance_model.leave_one_out``; a test calibrates again and compares).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from raybench.hardware.gpus import Gpu
from raybench.performance_model.layout import Layout
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import ModelPart
from raybench.performance_model.setup.kernels import Kernels
from raybench.performance_model.setup.training_setup import TrainingSetup

_KNOWN = frozenset({"A100", "A800", "H100", "H800", "H200", "B200", "GB200"})
_KNOWN_OF_AMD = frozenset({"MI300X", "MI325X", "MI355X", "MI250", "MI250X"})
TURING_GEFORCE = ("RTX 2070", "RTX 2070 SUPER", "RTX 2080", "RTX 2080 SUPER", "RTX 2080 Ti")
# Of all others, by the first word of a name, or the whole of it: the family above whose units theirs are most like.
_NEAREST = {
    **dict.fromkeys(("GH200", "H20", "H20-3e"), "H100"),
    **dict.fromkeys(("B100", "B300", "GB300"), "B200"),
    **dict.fromkeys(("P100", "V100S", "T4", "Quadro", "TITAN", *TURING_GEFORCE), "V100"),
    **dict.fromkeys(("MI300A", "MI350X"), "MI300X"),
    **dict.fromkeys(("MI100", "MI210"), "MI250"),
}
_NEAREST_OF_REST = "A100"  # Ampere's and Ada's, whose instructions for matrix products are the same
# Those of them that a few published trainings are of, as the tables have them (a test compares).
FEW_PUBLISHED = frozenset(
    {"A10", "A40", "L4", "L40S", "GH200 96GB", "H20", "RTX A6000", "RTX 6000 Ada", "RTX 3090", "RTX 4090", "RTX 5090"}
    | {"MI100", "MI350X", "RTX 3090 Ti"}
)
TUNED = "tuned"
OVERLAPPING = ("zero1", "ddp")  # of which Megatron-LM is told whether it sends beside computation
_EXPOSED, _EXPOSED_OF_FSDP, _EXPOSED_OF_ZERO = 0.5, 0.35, 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How many times as long as the fit a step takes at most, and how many times as fast it is at most."""

    slow: float
    fast: float


SPREADS: Mapping[str, Spread] = MappingProxyType(
    {
        TUNED: Spread(slow=1.259, fast=1.308),
        "cut": Spread(slow=1.404, fast=1.246),
        "compiled": Spread(slow=1.333, fast=1.285),
        "eager": Spread(slow=1.371, fast=1.209),
        "adapters": Spread(slow=1.274, fast=1.221),
        "zero3": Spread(slow=1.214, fast=1.205),
        "V100": Spread(slow=1.198, fast=1.246),
        "AMD": Spread(slow=1.189, fast=1.285),
        "other GPUs": Spread(slow=1.402, fast=1.331),
        # of 137 published trainings (python -m tests.performance_model.parallel.experts_fit), beside what their starts
        # differ by
        "experts": Spread(slow=1.320, fast=1.151),
        "megatron-deepspeed": Spread(slow=2.013, fast=1.234),
        "torchtitan": Spread(slow=1.433, fast=1.235),
        "transformers": Spread(slow=1.583, fast=1.221),
    }
)
# Programs that are named and whose own published step times say how far they are from the fit, in place of the class of
# their kind, and with which kernels. Those with three sources or more whose steps, of sources that are left out, are
# inside more often so than with bounds that are merely as wide. Megatron-LM's (17 sources, Megatron-Bridge's with it)
# are not: its class is the tuned one. Nor are steps with the middle moved by how far a program's are off in the mean:
# fewer are inside then.
PROGRAMS_TIMED: Mapping[str, tuple[Kernels, ...]] = MappingProxyType(
    {"megatron-deepspeed": ("fused",), "torchtitan": ("plain", "fused"), "transformers": ("plain",)}
)


def classes_of(gpu: Gpu | None, model: Transformer, setup: TrainingSetup, timing: str = "") -> tuple[str, ...]:
    """The classes of ``SPREADS``, of which the wider counts: of a GPU that few trainings are of, and of the program.

    Experts are a class of their own. A program is tuned where it is said to have fused kernels that are no compiler's,
    whose choice differs by release and by model; ``timing``: by whose published step times it is judged, where it is
    named.
    """
    family = gpu.name.split()[0] if gpu else ""
    if model.experts:
        return ("experts",)
    kind = _program(model, setup)
    programs: tuple[str, ...] = (kind,)
    if setup.kernels in PROGRAMS_TIMED.get(timing, ()):  # of whose cut models without fused kernels little is published
        programs = (kind, timing) if kind == "cut" else (timing,)
    if family in _KNOWN:
        return programs
    return ("V100" if family == "V100" else "AMD" if family in _KNOWN_OF_AMD else "other GPUs", *programs)


def _program(model: Transformer, setup: TrainingSetup) -> str:
    if setup.kernels == "fused":
        return "compiled" if setup.compiled else TUNED
    if isinstance(model, ModelPart):
        return "cut"
    if setup.lora_rank or setup.strategy == "zero3":
        return "adapters" if setup.lora_rank else "zero3"
    return "compiled" if setup.compiled else "eager"


def spread_of(classes: Sequence[str], spreads: Mapping[str, Spread] = SPREADS) -> Spread:
    """The wider of the classes' factors, on either side."""
    own = [spreads[name] for name in classes]
    return Spread(slow=max(one.slow for one in own), fast=max(one.fast for one in own))


def is_known(gpu: Gpu | None) -> bool:
    """Whether GPUs of its family are a class of their own."""
    family = gpu.name.split()[0] if gpu else ""
    return family == "V100" or family in _KNOWN | _KNOWN_OF_AMD


def nearest_family(gpu: Gpu) -> str:
    """The family of published trainings that a GPU is most like: its own, where it is one."""
    family = gpu.name.split()[0]
    return family if is_known(gpu) else _NEAREST.get(gpu.name, _NEAREST.get(family, _NEAREST_OF_REST))


def unpublished(gpu: Gpu | None) -> str | None:
    """That few trainings on a GPU are published, or none, and what its bounds are from; None of one with many."""
    if gpu is None or is_known(gpu):
        return None
    if gpu.name in FEW_PUBLISHED:
        return f"few published trainings are on {gpu.name}: wider bounds, those of all such GPUs"
    return f"no published training on {gpu.name} is known: as {nearest_family(gpu)}'s, with wider bounds"


def may_overlap(setup: TrainingSetup, layout: Layout) -> bool:
    """Whether ZeRO-1 may be told to send beside computation, and nobody says."""
    may = is_overlapped(replace(setup, overlaps=True))
    return may and setup.overlaps is None and layout.world_size > 1


def is_overlapped(setup: TrainingSetup) -> bool:
    """Whether ZeRO-1 is told to send beside computation; what DeepSpeed's gathers of weights are not.

    DDP sends so unless it is told not to, which its published steps are the measure of: saying it adds nothing.
    """
    return bool(setup.overlaps) and setup.strategy == "zero1" and not setup.is_deepspeeds


def sends_after(setup: TrainingSetup) -> bool:
    """Whether gradients are said to be reduced once all are there, and weights gathered before the next step.

    Megatron-LM without --overlap-grad-reduce (core/distributed/distributed_data_parallel.py: the hooks of gradients
    start nothing, ``finish_grad_sync`` reduces all), of its plain DDP and of the distributed optimizer.
    """
    return setup.overlaps is False and setup.strategy in OVERLAPPING and not setup.is_deepspeeds


def exposed_share(setup: TrainingSetup, model: Transformer) -> float:
    """How much of what may be hidden a step mostly waits for, as a power of it: half, where nothing says more.

    FSDP gathers ahead block by block: steps over nodes take 0.86 to 0.98 of the middle (PyTorch-IBM, OLMo-core, Llama
    3). What ZeRO-1 and 2 send follows the last backward pass: 1.07 to 1.12 of it (InternEvo, FlagPerf, BLOOM), unless
    it is told to be beside that. With experts most of what may be hidden are the exchanges of tokens, in each layer.
    """
    if setup.is_zero and not model.experts:
        return _EXPOSED if is_overlapped(setup) else _EXPOSED_OF_ZERO
    return _EXPOSED_OF_FSDP if setup.strategy.startswith("fsdp") else _EXPOSED
