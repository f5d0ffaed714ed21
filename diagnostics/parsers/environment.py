"""Variables that NCCL read, and values that it could not.

``NCCL_IB_GID_INDEX set by environment to 3.`` ends in a dot for whole numbers, not for text. Echoes come at first
use: an absent echo is no proof that the variable is unset.
"""

from diagnostics.parsers.base import Pattern

PATTERNS = (
    Pattern(
        kind="variable",
        literal=" set ",
        expression=r"\b(?P<name>NCCL_[A-Z0-9_]+) set (?:by environment )?to (?P<value>.*)",
        samples=("NCCL_IB_GID_INDEX set by environment to 3.", "NCCL_IB_HCA set to mlx5_0,mlx5_1"),
    ),
    Pattern(
        kind="variable",
        literal="reset to NCCL_",
        expression=r"reset to (?P<name>NCCL_[A-Z0-9_]+)=(?P<value>\S+)",
        samples=("Comm config netName reset to NCCL_NET=Socket",),
    ),
    Pattern(
        kind="plugin-requested",
        literal="lugin name set by env",
        expression=r"Plugin name set by env to (?P<name>\S+)",
        samples=("NET/Plugin: Plugin name set by env to libnccl-net.so",),
    ),
    Pattern(
        kind="network-requested",
        literal="Comm config Net name set to",
        expression=r"Net name set to (?P<name>.+)",
        samples=("Comm config Net name set to Socket",),
    ),
    Pattern(
        kind="variable-invalid",
        literal="Invalid value",
        expression=r"Invalid value (?P<value>\S+) for (?P<name>NCCL_\w+), using default (?P<default>\S+?)\.?$",
        samples=("Invalid value 4G8 for NCCL_BUFFSIZE, using default 4194304.",),
    ),
    Pattern(
        kind="variable-invalid",
        literal="Invalid NCCL_",
        expression=(
            r"Invalid (?P<name>NCCL_\w+) (?P<value>-?\d+) \((?P<limit>must be a multiple of \d+|(?:maximum|minimum)(?: "
            r"allowed)? \d+)\)"
        ),
        samples=(
            "Invalid NCCL_NTHREADS 100 (must be a multiple of 32)",
            "Invalid NCCL_LL128_NTHREADS 4096 (maximum 640).",
            "Invalid NCCL_NTHREADS 32 (minimum 64).",
        ),
    ),
    Pattern(
        kind="algorithm-unavailable",
        literal="lgorithm/protocol available",
        expression=r"[Nn]o algorithm/protocol available(?: for (?:function )?(?P<function>\w+))?",
        samples=(
            "Error : no algorithm/protocol available",
            (
                "Error : no algorithm/protocol available for function Broadcast with datatype ncclFloat32. "
                "NCCL_ALGO was set "
                "to Tree."
            ),
        ),
    ),
    Pattern(
        kind="tuner",
        literal="uner plugin",
        expression=r"(?:TUNER/Plugin: )?Using (?:(?P<internal>internal) tuner plugin|tuner plugin (?P<name>\S+))",
        samples=("TUNER/Plugin: Using internal tuner plugin.", "TUNER/Plugin: Using tuner plugin nccl_ofi_tuner"),
    ),
    Pattern(
        kind="tuner",
        literal="TUNER/Plugin: Using ",
        expression=r"TUNER/Plugin: Using (?!internal|tuner plugin)(?P<name>\S+)(?: \(v\d+\))?$",
        samples=("TUNER/Plugin: Using nccl_ofi_tuner (v3)",),
    ),
    Pattern(
        kind="algorithm-syntax",
        literal="Unrecognized ",
        expression=r"Unrecognized (?:element|prefix) token (?P<token>.*)",
        samples=('Unrecognized element token "Rings" when parsing NCCL_ALGO',),
    ),
)
