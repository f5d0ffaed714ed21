"""What a fabric test is asked for: the variables of the role and the options of the command, checked. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from raybench.errors import UsageError
from raybench.preflight.fabric.rounds import SAMPLE_MATCHINGS, SCOPES

TOOLS = ("auto", "ib_write_bw", "ib_write_lat", "iperf3", "tcp")
GPU_MEMORY = ("off", "auto", "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricSettings:
    """Every setting with its default. In an inventory each has the prefix ``fabric_``.

    ``slow_ratio`` of what is expected is the least that passes; ``outlier_ratio`` of what is typical likewise, for
    devices that are software ``emulated_ratio``; ``outlier_mads`` is how many scaled MADs below typical is slow.
    """

    tool: str = "auto"
    scope: str = "sample"
    seconds: int = 2
    message_bytes: int = 65536
    queue_pairs: int = 2
    streams: int = 4
    iterations: int = 1000  # of a latency test
    latency_bytes: int = 2
    devices: str = ""  # names or patterns, separated by commas; empty: all
    gpu_memory: str = "off"
    gid_index: int = -1  # -1: chosen
    traffic_class: int = -1
    service_level: int = -1
    matchings: int = SAMPLE_MATCHINGS
    leaf_size: int = 0  # of consecutive hosts; 0: from fabric_leaf of each host, if all have it
    confirm_rounds: int = 3
    seed: int = 0
    slow_ratio: float = 0.9
    outlier_ratio: float = 0.8
    outlier_mads: float = 3.5
    latency_ratio: float = 0.5  # typical over measured latency; less is slow
    emulated_ratio: float = 0.25
    max_latency_us: float = 0.0  # 0: compared with each other only
    limit_seconds: int = 20  # of one test, beyond its own duration
    start_seconds: int = 30  # for which an agent that does not answer yet is waited for
    first_port: int = 18500
    last_port: int = 18699

    def __post_init__(self) -> None:
        """Raises UsageError on values that cannot be."""
        _one_of("tool", self.tool, TOOLS)
        _one_of("scope", self.scope, SCOPES)
        _one_of("gpu_memory", self.gpu_memory, GPU_MEMORY)
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"fabric_{name} is {value}; it must be between {low:g} and {high:g}")
        if self.first_port >= self.last_port:
            raise UsageError(f"fabric_first_port {self.first_port} is not below fabric_last_port {self.last_port}")

    @property
    def is_latency(self) -> bool:
        """Whether less is better."""
        return self.tool == "ib_write_lat"

    @property
    def test_seconds(self) -> float:
        """About how long one test takes, its start included."""
        return 1.5 if self.is_latency else self.seconds + 0.5

    @property
    def longest_seconds(self) -> int:
        """When a test is given up."""
        return (0 if self.is_latency else self.seconds) + self.limit_seconds


_RANGES = (
    ("seconds", 1, 3600),
    ("message_bytes", 1, 2**30),
    ("queue_pairs", 1, 16384),
    ("streams", 1, 128),
    ("iterations", 5, 10**7),
    ("latency_bytes", 1, 2**23),
    ("gid_index", -1, 1023),
    ("traffic_class", -1, 255),
    ("service_level", -1, 15),
    ("matchings", 1, 10**6),
    ("leaf_size", 0, 10**6),
    ("confirm_rounds", 0, 20),
    ("slow_ratio", 0, 1),
    ("outlier_ratio", 0, 1),
    ("outlier_mads", 1, 100),
    ("latency_ratio", 0, 1),
    ("emulated_ratio", 0, 1),
    ("max_latency_us", 0, 1e9),
    ("limit_seconds", 1, 3600),
    ("start_seconds", 1, 3600),
    ("first_port", 1024, 65535),
    ("last_port", 1024, 65535),
)


def settings_from(values: Mapping[str, Any]) -> FabricSettings:
    """Settings from names without prefix to values; None stands for the default. Raises UsageError."""
    kinds = {field.name: field.type for field in fields(FabricSettings)}
    given = {}
    for name, value in values.items():
        if name not in kinds:
            raise UsageError(f"there is no setting fabric_{name}; there are {', '.join(sorted(kinds))}")
        if value is not None and value != "":
            given[name] = _converted(name, value, kinds[name])
    return FabricSettings(**given)


def _converted(name: str, value: Any, kind: Any) -> Any:
    """A value as the setting's type: Ansible hands numbers over as text where they come from a template."""
    if isinstance(value, list | tuple) and kind is str:
        return ",".join(map(str, value))
    if name == "gpu_memory" and isinstance(value, bool):
        return "on" if value else "off"  # as YAML reads an unquoted on
    if kind is str:
        return str(value)
    if isinstance(value, bool):
        raise UsageError(f"fabric_{name} is {value!r}, which is not a number")
    try:
        number = float(value)
        whole = int(number)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"fabric_{name} is {value!r}, which is not a number") from error
    if kind is int and number != whole:
        raise UsageError(f"fabric_{name} is {value!r}, which is not an integer")
    return whole if kind is int else number


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"fabric_{name} is {value!r}; it is one of {', '.join(allowed)}")
