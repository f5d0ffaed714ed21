"""What a host should be: the defaults, each with where it comes from, and what the inventory says instead.

A field ``memlock_min_gib`` is the variable ``preflight_memlock_min_gib`` of the role and of inventories; the
role's defaults are compared with these by a test. None means nothing in particular: hosts are compared with each other.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

PREFIX = "preflight_"

# NVLinks a GPU and what each carries in GB/s a direction, by a part of the product name; the first that fits is taken.
# A100: 12 x 25, H100 and H200: 18 x 25, B200 and GB200: 18 x 50 (NVIDIA's data sheets and OCI's shapes).
GPU_TYPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("H100 NVL", {"nvlinks": 12, "pcie_generation": 5}),
    ("H100 PCIe", {"nvlinks": 0, "pcie_generation": 5}),
    ("H100", {"nvlinks": 18, "pcie_generation": 5}),
    ("GH200", {}),
    ("H200 NVL", {"nvlinks": 18, "pcie_generation": 5}),
    ("H200", {"nvlinks": 18, "pcie_generation": 5}),
    ("H20", {"nvlinks": 18, "pcie_generation": 5}),
    ("H800", {"nvlinks": 8, "pcie_generation": 5}),
    ("GB200", {"nvlinks": 18}),
    ("GB300", {"nvlinks": 18}),
    ("B200", {"nvlinks": 18, "pcie_generation": 5}),
    ("B300", {"nvlinks": 18}),
    ("A100-SXM", {"nvlinks": 12, "pcie_generation": 4}),
    ("A800-SXM", {"nvlinks": 8, "pcie_generation": 4}),
    ("L40", {"nvlinks": 0, "pcie_generation": 4}),
    ("L4", {"nvlinks": 0, "pcie_generation": 4}),
)


def _text(raw: Any) -> str:
    """Text, or a whole number as text. A number with a point has lost zeros at its end: 6.10 came as 6.1."""
    if isinstance(raw, bool | float | list | tuple | dict):
        raise TypeError(raw)
    return str(raw)


def _whole(raw: Any) -> int:
    if isinstance(raw, bool):
        raise TypeError(raw)
    number = int(raw)
    if isinstance(raw, float) and raw != number:
        raise ValueError(raw)
    return number


def _finite(raw: Any) -> float:
    number = float(raw)
    if not math.isfinite(number):
        raise ValueError(raw)
    return number


# What the values of ``gpu_types`` and ``port_types`` may name.
_TYPED: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    "gpu_types": {
        "nvlinks": _whole, "pcie_generation": _whole, "temperature_max_c": _finite, "memory_idle_max_mib": _finite,
        "corrected_sram_max": _finite, "corrected_dram_max": _finite, "remapped_rows_max": _finite,
    },
    "port_types": {"rate_gbits": _finite, "firmware": _text},
}  # fmt: skip
_OF_TEXTS = (PREFIX + "versions",)
_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
# Variables of the role that say how to look, and nothing of what is expected.
_OF_THE_ROLE = (
    "timeout_seconds", "host_timeout_seconds", "interval_seconds", "python", "folders", "ports",
    "ports_timeout_seconds", "listen_seconds", "address", "environment", "prefix", "only", "skip", "output_dir",
    "level", "test_seconds", "test_sizes",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """Thresholds. GiB are 2^30 bytes, Gb/s 10^9 bits a second."""

    gpu_count: int | None = None
    gpu_driver: str | None = None
    gpu_temperature_max_c: float = 87.0
    gpu_mig: bool = False
    gpu_memory_idle_max_mib: int = 2048
    gpu_corrected_sram_max: int = 10_000
    gpu_corrected_dram_max: int = 20_000_000
    gpu_remapped_rows_max: int = 512
    gpu_pcie_replays_max: int = 100
    gpu_types: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    xid_ignored: tuple[int, ...] = ()
    log_hours: float = 24.0
    port_count: int | None = None
    port_rate_gbits: float | None = None
    port_types: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ports_ignored: tuple[str, ...] = ()
    link_flaps_max: int = 4
    roce_mtu_min: int = 4200
    roce_priority: int | None = None
    roce_trust: str = "dscp"
    sharp: bool = False
    mtu: int | None = None
    mtu_interfaces: tuple[str, ...] = ()
    memlock_min_gib: float = 32.0
    nofile_min: int = 65_535
    shm_min_gib: float = 8.0
    memory_min_gib: float | None = None
    memory_available_min_percent: float = 10.0
    disk_free_min_percent: float = 10.0
    swap_used_max_gib: float = 1.0
    clock_warn_seconds: float = 0.001
    clock_fail_seconds: float = 0.01
    clock_spread_fail_seconds: float = 5.0
    governor: str = "performance"
    max_read_request_min: int = 4096
    kernel: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    drift_ignored: tuple[str, ...] = ()
    group: str = ""

    def for_gpu(self, product: str) -> Mapping[str, Any]:
        """What a GPU of this product should be: the inventory's word over the table above. Empty for an unknown one."""
        table = next((values for name, values in GPU_TYPES if name in product), {})
        own = next((values for name, values in self.gpu_types.items() if name in product), {})
        return {**table, **own}

    def gpu_limit(self, product: str, name: str) -> float:
        """A threshold of GPUs: that of ``gpu_types`` for this product, else ``gpu_NAME`` for all."""
        own = next((values for part, values in self.gpu_types.items() if part in product), {})
        return float(own.get(name, getattr(self, f"gpu_{name}")))

    def for_port(self, device_type: str) -> Mapping[str, Any]:
        """What the inventory expects of ports of this device type (``MT4129``); the plain variables otherwise."""
        own = self.port_types.get(device_type, {})
        return {"rate_gbits": self.port_rate_gbits, "firmware": None, **own}


def read_expectations(variables: Mapping[str, Any]) -> tuple[Expectations, tuple[str, ...]]:
    """Expectations from ``preflight_*`` variables, and what is wrong with them, one line each.

    A value of the wrong type is reported and its default stays. Variables that are none of ours are passed over.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for item in fields(Expectations):
        raw = variables.get(PREFIX + item.name)
        if raw is None or raw == "":
            continue
        try:
            value = _converted(kind_of(item.type), raw)
            if item.name in _TYPED:
                value = _typed(value, _TYPED[item.name])
            if PREFIX + item.name in _OF_TEXTS:
                value = {str(package): _text(version) for package, version in value.items()}
            values[item.name] = value
        except (TypeError, ValueError, KeyError, OverflowError):
            problems.append(_problem(PREFIX + item.name, kind_of(item.type), raw))
    return Expectations(**values), tuple(problems)


def _problem(name: str, kind: str, raw: Any) -> str:
    values = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else [raw]
    if any(isinstance(one, float | bool) for one in values) and (kind in {"str", "list of str"} or name in _OF_TEXTS):
        return f"{name} is {raw!r}, which is not text; put it in quotes: YAML reads 6.10 as 6.1 and on as true"
    return f"{name} is {raw!r}, which is no {kind.partition(' ')[0]}"


def unknown_variables(variables: Mapping[str, Any]) -> tuple[str, ...]:
    """Variables that begin as ours do and are none: misspelt ones, whose value nothing would ever read."""
    known = variable_names() | {PREFIX + name for name in _OF_THE_ROLE}
    return tuple(sorted(name for name in variables if name.startswith(PREFIX) and name not in known))


def variable_names() -> frozenset[str]:
    """The names of all variables that say what is expected."""
    return frozenset(PREFIX + item.name for item in fields(Expectations))


def kind_of(annotation: Any) -> str:
    """``int``, ``float``, ``str``, ``bool``, ``dict``, or ``list of int`` and ``list of str``."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    if "Mapping" in text:
        return "dict"
    return f"list of {text[6:9]}" if text.startswith("tuple[") else text.split(" ")[0]


def _typed(table: Mapping[str, Any], kinds: Mapping[str, Callable[[Any], Any]]) -> dict[str, dict[str, Any]]:
    """A table of types with its values as checks read them. Raises TypeError, ValueError or KeyError."""
    return {
        str(kind): {name: kinds[name](value) for name, value in dict(values).items()} for kind, values in table.items()
    }


def _converted(kind: str, raw: Any) -> Any:
    if kind == "dict":
        return dict(raw)
    if kind.startswith("list"):
        items = [raw] if isinstance(raw, int) else raw.split(",") if isinstance(raw, str) else list(raw)
        return tuple(_whole(item) if kind.endswith("int") else _text(item).lstrip() for item in items)
    if kind == "bool":
        return raw if isinstance(raw, bool) else _SWITCHES[str(raw).lower()]
    if isinstance(raw, bool | list | dict):
        raise TypeError(raw)
    return {"int": _whole, "float": _finite, "str": _text}[kind](raw)
