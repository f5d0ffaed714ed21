"""Messages to events: one table of patterns a concern. A line may be of several kinds."""

from diagnostics.parsers import (
    channels,
    communicator,
    environment,
    gpudirect,
    memory,
    network,
    plugins,
    pytorch,
    sockets,
    topology,
    verbs,
    version,
)
from diagnostics.parsers.base import Pattern

PATTERNS: tuple[Pattern, ...] = (
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
)
FOREIGN_PATTERNS: tuple[Pattern, ...] = pytorch.PATTERNS  # lines without NCCL's own mark
