"""Messages to events: one table of patterns a concern. A line may be of several kinds."""

from diagnostics.parsers import (
    channels,
    communicator,
    environment,
    failure,
    gpudirect,
    memory,
    network,
    observers,
    plugins,
    programs,
    pytorch,
    sockets,
    topology,
    verbs,
    version,
    warnings,
)
from diagnostics.parsers.base import Pattern, Table

PATTERNS = Table(
    (
        *version.PATTERNS,
        *communicator.PATTERNS,
        *channels.PATTERNS,
        *environment.PATTERNS,
        *network.PATTERNS,
        *plugins.PATTERNS,
        *gpudirect.PATTERNS,
        *topology.PATTERNS,
        *verbs.PATTERNS,
        *sockets.PATTERNS,
        *memory.PATTERNS,
        *warnings.PATTERNS,
        failure.FRAME,
    )
)
OBSERVER_PATTERNS: tuple[Pattern, ...] = observers.PATTERNS
FOREIGN_PATTERNS = Table(
    (
        *pytorch.PATTERNS,
        *failure.PATTERNS,
        *programs.PATTERNS,
    )
)  # lines without NCCL's own mark

_SOCKETS_AT_INFO = ("trace", "ras-port", "ras-peer-dead", "connect-retry", "retry")
# Bodies of warnings that are NCCL's own wherever they stand: pasted without its mark, or repeated by a program.
_BODIES = frozenset(
    {
        "address-invalid", "algorithm-unavailable", "async-event", "bind-failed", "collective-mismatch",
        "communicator-fatal", "completion-error", "connect-failed", "connect-retry", "cuda-failure", "duplicate-gpu",
        "files-exhausted", "foreign-connection", "gid-unreadable", "gpu-out-of-memory", "ipc-failed", "library-missing",
        "link-layer-mismatch", "message-truncated", "net-device-mismatch", "network-not-found", "no-interface",
        "no-transport", "nvls-failed", "ofi-failed", "peer-closed", "plugin-none", "plugin-registration-failed",
        "plugin-request-failed", "algorithm-syntax",
        "roce-sign",
        "rank-count-mismatch", "search-failed", "shm-attach-failed", "shm-extend-failed", "topology-file-bad",
        "verbs-failed", "version-mismatch",
    }
)  # fmt: skip
SIGNS = frozenset({"roce-sign"})  # of a warning they tell something, and not what it warns of
WARNING_BODIES: tuple[Pattern, ...] = (
    *(pattern for pattern in PATTERNS if pattern.kind in _BODIES and pattern not in warnings.PATTERNS),
    *warnings.OWN_WORDS,
)
# What NCCL says of a failure at level INFO, pasted without its mark: at the start of a line.
_AT_INFO = frozenset({"trace", "failure-frame", "async-error", "libibverbs-missing", "ras-peer-dead"})
INFO_BODIES: tuple[Pattern, ...] = tuple(pattern for pattern in PATTERNS if pattern.kind in _AT_INFO)
BODY_PATTERNS = Table((*WARNING_BODIES, *INFO_BODIES))
QUOTED_PATTERNS = Table(dict.fromkeys((*WARNING_BODIES, *warnings.PATTERNS, *INFO_BODIES)))  # behind "last error:"

# Errors count at level WARN only: at INFO the same texts are attempts that NCCL retries or does without.
_INFO = Table(
    (
        *version.PATTERNS,
        *communicator.PATTERNS,
        *environment.PATTERNS,
        *network.PATTERNS,
        *plugins.PATTERNS,
        *gpudirect.PATTERNS,
        *topology.PATTERNS,
        failure.FRAME,
        failure.STACK_LINE,
        *(pattern for pattern in channels.PATTERNS if pattern.kind == "connected"),
        *(pattern for pattern in sockets.PATTERNS if pattern.kind in _SOCKETS_AT_INFO),
        *(pattern for pattern in verbs.PATTERNS if pattern.kind in ("async-event", "link-layer-mismatch")),
    )
)
_BY_LITERAL: tuple[tuple[str, tuple[Pattern, ...]], ...] = (
    ("- Init ", tuple(pattern for pattern in communicator.PATTERNS if pattern.kind.startswith("init-"))),
    ("GPU Direct RDMA", gpudirect.PATTERNS),
    (" via ", channels.PATTERNS),
    (" coll channels", channels.PATTERNS),
    (" nNodes ", communicator.PATTERNS),
    (" COMPLETE", communicator.PATTERNS),
)


def info_patterns(text: str) -> tuple[Pattern, ...]:
    """The patterns worth trying on a message at level INFO."""
    for literal, patterns in _BY_LITERAL:
        if literal in text:
            return patterns
    return _INFO
