"""What a GPU can do at most, found by the exact name that its driver gives it; an unknown device stays unknown.

A wrong peak makes a wrong MFU unnoticed, so there is no nearest match and no default: `find_gpu` answers None,
and `unknown_reason` says what to measure instead.

The table is ``gpus.csv``, whose head says what each row was compared with. Its TFLOP/s are dense (never the figure with
structured sparsity, which data sheets print larger), of the units that a matrix multiplication uses (fp64 on tensor or
matrix cores where there are any) and, for floats of 8 and 16 bits, with sums in fp32, as PyTorch computes them. Where
public tables go wrong: an A10G is no A10 (half the tensor throughput); the L40S has 362 in bf16 (733 is fp8, or bf16
with sparsity); H100 NVL is per GPU (the first data sheet printed the pair); each half of an MI250X is a device of its
own to PyTorch.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from raybench.errors import unknown_name
from raybench.hardware.tables import number, read_table

# One direction of a x16 slot, GB/s: 8, 16, 32 GT/s x 16 lanes x 128/130; 64 GT/s in 256-byte flits with 242 for data.
PCIE_X16_GB_PER_S: Mapping[int, float] = MappingProxyType({3: 15.75, 4: 31.5, 5: 63.0, 6: 121.0})

RACKS = ("GB200", "GB300")  # whose NVLink joins up to 72 of them, the GPUs of one rack

# What CUDA reports of a device's memory, as a share of nvidia-smi's memory.total: the median of 16 devices that both
# were seen of (0.978 to 0.996). The driver and its firmware keep the rest (nvmlMemory_v2_t.reserved).
USABLE_SHARE = 0.988

_HOPPER = 9  # the first number of its compute capability

PEAK_DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")
_DTYPES = {
    "float64": "fp64",
    "double": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "tfloat32": "tf32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float8": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "float4": "fp4",
}

# GPUs whose NVLink or Infinity Fabric is a bridge, sold separately, that joins two or four of them. Without it, or
# between more of them, data cross PCIe.
BRIDGED = frozenset(
    {"A30", "A40", "RTX A6000", "RTX 3090", "A100 PCIe 40GB", "A100 PCIe 80GB", "H100 PCIe", "H100 NVL", "H200 NVL"}
    | {"A800 PCIe 80GB", "MI100", "MI210", "RTX A4500", "RTX A5000", "RTX A5500", "RTX 3090 Ti", "RTX 2080 Ti"}
    | {"TITAN RTX", "Quadro RTX 5000", "Quadro RTX 6000", "Quadro RTX 8000"}
)

# What a person types for `--gpu`: each means one row, the commonest of its name.
SHORT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "p100": "P100 PCIe 16GB",
        "v100": "V100 SXM2 32GB",
        "v100-16gb": "V100 SXM2 16GB",
        "v100-32gb": "V100 SXM2 32GB",
        "v100-pcie": "V100 PCIe 16GB",
        "v100s": "V100S PCIe 32GB",
        "rtx-8000": "Quadro RTX 8000",
        "a100": "A100 SXM 80GB",
        "a100-40gb": "A100 SXM 40GB",
        "a100-80gb": "A100 SXM 80GB",
        "a100-pcie": "A100 PCIe 80GB",
        "a800": "A800 SXM 80GB",
        "h100": "H100 SXM",
        "h100-sxm": "H100 SXM",
        "h100-pcie": "H100 PCIe",
        "h100-nvl": "H100 NVL",
        "h200-nvl": "H200 NVL",
        "h800": "H800 SXM",
        "rtx-pro-6000": "RTX PRO 6000 Blackwell",
        "gh200": "GH200 96GB",
        "mi250": "MI250 (one of its two GPUs)",
        "mi250x": "MI250X (one of its two GPUs)",
    }
)

# Names that do not say how much memory: made with another size as well.
OTHER_SIZES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "p100": ("P100 PCIe 12GB",),
        "v100": ("V100 SXM2 16GB",),
        "v100-pcie": ("V100 PCIe 32GB",),
        "a100": ("A100 SXM 40GB",),
        "a100-pcie": ("A100 PCIe 40GB",),
        "a800": ("A800 SXM 40GB",),
        "gh200": ("GH200 144GB",),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device as its vendor specifies it.

    ``tflops``: dense peak by dtype (fp64, fp32, tf32, bf16, fp16, fp8, int8, fp4; 10^12 operations a second), without
    the types it has no units for. ``memory_gb``: the marketed figure. ``memory_bytes``: what a process can use, its
    CUDA context included: what CUDA reports, else ``USABLE_SHARE`` of what nvidia-smi reports, else 95 % of the
    marketed figure in GiB. ``nvlink_gb_per_s``: one direction, all links (NVLink, or AMD's Infinity Fabric, whose
    generation is 0); None where there are none. A PCIe GPU has it only with a bridge. ``compared``: the independent
    tables that it was compared with, by the letters in the head of gpus.csv. ``is_seen``: whether its memory is of a
    device that somebody saw. ``compute_capability``: of NVIDIA's alone.
    """

    name: str
    devices: tuple[str, ...]
    tflops: Mapping[str, float]
    memory_gb: float
    memory_bytes: int
    memory_gb_per_s: float
    nvlink_generation: int | None
    nvlink_gb_per_s: float | None
    pcie_generation: int
    source: str
    compared: str
    is_seen: bool = True
    compute_capability: float | None = None

    @property
    def is_hopper(self) -> bool:
        """Whether it has Hopper's instructions, which kernels of FlashAttention-3 are written in."""
        return self.compute_capability is not None and int(self.compute_capability) == _HOPPER

    @property
    def pcie_gb_per_s(self) -> float:
        """One direction of its x16 slot."""
        return PCIE_X16_GB_PER_S[self.pcie_generation]

    def peak_tflops(self, dtype: str) -> float | None:
        """Dense peak in 10^12 operations a second for ``bf16``, ``torch.bfloat16``, ...; None: no units for it."""
        return self.tflops.get(dtype_name(dtype))

    @property
    def board_gb_per_s(self) -> float | None:
        """One direction of the links that every machine with this GPU has; None where PCIe is all that is certain."""
        return None if self.name in BRIDGED else self.nvlink_gb_per_s


def dtype_name(dtype: str) -> str:
    """The table's name of a type: ``torch.bfloat16`` and ``bfloat16`` are ``bf16``."""
    plain = dtype.removeprefix("torch.").lower()
    return _DTYPES.get(plain, plain)


def find_gpu(device_name: str) -> Gpu | None:
    """The GPU by its name in torch.cuda.get_device_name or nvidia-smi; None where the table has no such name."""
    return _BY_DEVICE.get(_key(device_name))


def unknown_reason(device_name: str) -> str:
    """Why ``find_gpu`` found nothing, and what to do."""
    instead = "measure a GEMM and a copy instead, or give the peak"
    if re.search(r"\bMIG\b", device_name):
        return f"'{device_name}' is a slice of a GPU, whose share of the peak the table does not have; {instead}"
    return f"the hardware table has no device named '{device_name}'; {instead}"


def gpu_for(text: str, *, else_: str = "") -> Gpu:
    """A GPU as a person types it: a device name, a name of the table, or a short one: ``h100`` (the SXM), ``4090``.

    Raises UsageError for anything else, with the names there are, and ``else_``: what to do about one that is right.
    """
    short = re.sub(r"[\s_]+", "-", text.strip().lower())
    found = find_gpu(text) or _BY_NAME.get(_key(text)) or _BY_NAME.get(_key(SHORT_NAMES.get(short, "")))
    if found is None:
        found = _joined(text)
    if found is None:
        known = (*(gpu.name for gpu in GPUS), *SHORT_NAMES)
        raise unknown_name("GPU in the hardware table named", text, known, else_=else_)
    return found


def other_sizes(text: str) -> tuple[Gpu, ...]:
    """GPUs of other sizes that the name may mean as well as ``gpu_for`` of it: ``a100`` has 80 GB, or 40."""
    short = re.sub(r"[\s_]+", "-", text.strip().lower())
    return tuple(_BY_NAME[_key(name)] for name in OTHER_SIZES.get(short, ()))


def usable_of(marketed: int, gpus: Iterable[Gpu]) -> int:
    """Bytes that a process can use of a GPU by its marketed size: ``40G`` of an A100 are 39.4; others as they are."""
    of_size = (gpu for gpu in gpus if gpu.is_seen and gpu.memory_gb * 2**30 == marketed)
    return min((gpu.memory_bytes for gpu in of_size), default=marketed)


def _joined(text: str) -> Gpu | None:
    """``RTX4090``, ``rtx-4090`` and ``4090``: the one name that is the same but for spaces, dashes and RTX."""

    def letters(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "", _key(name).removeprefix("geforce")).removeprefix("rtx")

    wanted = letters(text)
    alike = [gpu for gpu in GPUS if wanted and letters(gpu.name) == wanted]
    return alike[0] if len(alike) == 1 else None


def _key(name: str) -> str:
    """The name without vendor, case and extra spaces: drivers of 2020 and before left the vendor out."""
    plain = " ".join(name.lower().split())
    return re.sub(r"^(nvidia|amd) ", "", plain)


def _gpu(row: Mapping[str, str]) -> Gpu:
    memory = float(row["memory_gb"])
    reported = number(row["reported_mib"])
    usable = number(row["usable_mib"]) or (reported and USABLE_SHARE * reported)
    generation = number(row["nvlink_generation"])
    return Gpu(
        name=row["name"],
        devices=tuple(row["devices"].split("|")),
        tflops=MappingProxyType({dtype: float(row[dtype]) for dtype in PEAK_DTYPES if row[dtype]}),
        memory_gb=memory,
        memory_bytes=int((usable or memory * 1024 * 0.95) * 2**20),
        memory_gb_per_s=float(row["memory_gb_per_s"]),
        nvlink_generation=None if generation is None else int(generation),
        nvlink_gb_per_s=number(row["nvlink_gb_per_s"]),
        pcie_generation=int(row["pcie_generation"]),
        source=row["source"],
        compared=row["compared"],
        is_seen=usable is not None,
        compute_capability=number(row["compute_capability"]),
    )


GPUS: tuple[Gpu, ...] = tuple(_gpu(row) for row in read_table("raybench.hardware", "gpus.csv"))
_BY_DEVICE = {_key(device): gpu for gpu in GPUS for device in gpu.devices}
_BY_NAME = {_key(gpu.name): gpu for gpu in GPUS}
