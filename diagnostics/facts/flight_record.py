"""What a dump of PyTorch's flight recorder says of one rank."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightRecord:
    """The state of one rank in a PyTorch flight-recorder dump.

    ``last_sequence`` maps a process group to the last collective that the rank enqueued in it, ``entries`` holds
    (group, sequence, operation, state, sizes) of the collectives in the buffer, oldest first. ``created_ns`` has the
    time, by the clock of its host, at which the rank began a collective.
    """

    rank: int
    file: str
    last_sequence: Mapping[str, int]
    entries: Sequence[tuple[str, int, str, str, str]]
    created_ns: Mapping[tuple[str, int], int] = field(default_factory=dict)  # of the newest collectives

    def waits_in(self, group: str, sequence: int) -> bool:
        """Whether the rank had begun this collective and not completed it, though it had completed the one before."""
        states = {number: state for name, number, _, state, _ in self.entries if name == group}
        return states.get(sequence) in ("scheduled", "started") and states.get(sequence - 1) == "completed"
