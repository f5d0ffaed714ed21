"""The offset of a node's clock against the command's, from what passes between them."""

from dataclasses import dataclass, field

from raybench.documents.run.node_samples import NodeClock


@dataclass(kw_only=True)
class ClockEstimate:
    """What is known of one node's monotonic clock. ``start_seconds``: the run's start on the command's.

    A message that was heard at a moment was sent before: its time there plus the offset is no later. A question and its
    answer bound the offset from both sides: the node read its clock between the two. Both are kept as the narrowest.
    """

    start_seconds: float
    _most: float | None = None
    _least: float | None = None
    _narrowest: float = field(default=float("inf"))  # seconds from a question to its answer
    _same: bool = field(default=False)

    def same(self) -> None:
        """The node is this machine: there is one clock."""
        self._same = True

    def heard(self, *, there_seconds: float, heard_seconds: float) -> None:
        """A message that was sent at ``there_seconds`` of the node's clock, or later, came at ``heard_seconds``."""
        most = heard_seconds - there_seconds
        self._most = most if self._most is None else min(self._most, most)

    def answered(self, *, asked_seconds: float, there_seconds: float, answered_seconds: float) -> None:
        """The node read its clock between a question and its answer, both at times of ours."""
        self.heard(there_seconds=there_seconds, heard_seconds=answered_seconds)
        least = asked_seconds - there_seconds
        self._least = least if self._least is None else max(self._least, least)
        self._narrowest = min(self._narrowest, answered_seconds - asked_seconds)

    def clock(self) -> NodeClock:
        """Seconds since the run's start, from those of the node."""
        if self._same:
            return NodeClock(offset_seconds=-self.start_seconds, bound_seconds=0.0, basis="the clock of the command")
        if self._most is None:
            return NodeClock(offset_seconds=-self.start_seconds, basis="unknown: nothing was heard of it")
        if self._least is None:
            basis = "one way: later than it was by what the fastest message took"
            return NodeClock(offset_seconds=self._most - self.start_seconds, basis=basis)
        drifts = self._least > self._most  # by more than a round trip takes: then all that it was is within the bound
        return NodeClock(
            offset_seconds=(self._most + self._least) / 2 - self.start_seconds,
            bound_seconds=abs(self._most - self._least) / 2 + (self._narrowest if drifts else 0.0),
            basis="round trips, between which the clock drifted" if drifts else "round trips",
        )
