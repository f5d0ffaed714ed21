"""What became of a run in an experiment tracker (``--track``)."""

from typing import Literal

from raybench.documents.part import FieldwisePart

TrackingStatus = Literal["logging", "logged", "partial", "failed"]


class TrackedRun(FieldwisePart, frozen=True, kw_only=True):
    """One tracker. ``logging``: the result was written while it was still told of it; ``partial``: some was lost.

    ``where`` its run is seen; ``remark``: what to do with it; ``problem``: what went wrong. Nothing of it counts for
    the verdict.
    """

    tracker: str
    status: TrackingStatus
    where: str = ""
    remark: str = ""
    problem: str = ""

    @property
    def as_told(self) -> str:
        """``/runs/x/wandb/offline-run-1; it is kept offline: ...``, with its status where something was lost."""
        status = self.status if self.status in ("partial", "failed") else ""
        return "; ".join(part for part in (status, self.problem, self.where, self.remark) if part)
