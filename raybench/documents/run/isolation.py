"""What became of those whom a run accused: measured again with healthy partners, proven or withdrawn, and dropped."""

from typing import Literal

from raybench.documents.part import FieldwisePart
from raybench.documents.quantity import Count, Seconds
from raybench.documents.run.cluster import DroppedNode

Outcome = Literal["confirmed", "not confirmed", "path", "unknown"]


class IsolationPair(FieldwisePart, frozen=True, kw_only=True):
    """What two nodes of a group reached, in their slower direction, GB/s, and that of the group's fastest two."""

    nodes: tuple[str, str]
    gb_per_s: float
    best_gb_per_s: float


class IsolationGroup(FieldwisePart, frozen=True, kw_only=True):
    """Nodes that were measured together. ``instead``: who was there in the suspect's place, where it was not.

    ``broke``: why the measurement is not complete, empty where it is. ``run_id``: its folder below ``isolation/``.
    """

    nodes: tuple[str, ...]
    with_suspect: bool
    instead: str | None = None
    seconds: Seconds
    broke: str = ""
    run_id: str = ""
    pairs: tuple[IsolationPair, ...] = ()


class Suspicion(FieldwisePart, frozen=True, kw_only=True):
    """A node, some of its ranks, or the path between two nodes, that the run accuses, and what came of it.

    ``figure`` and ``partners_figure``: measured again; ``first_figure`` and ``first_others_figure``: those of the run.
    All in ``unit``, None where they are not known. ``limit``: the share of the others' figure below which it is slow.
    ``is_open``: no finding of the run accuses it; it is one of several that may be at fault.
    """

    name: str
    nodes: tuple[str, ...]
    ranks: tuple[Count, ...] = ()
    rules: tuple[str, ...]
    is_open: bool = False
    outcome: Outcome
    reason: str
    unit: str = ""
    limit: float | None = None
    figure: float | None = None
    partners_figure: float | None = None
    first_figure: float | None = None
    first_others_figure: float | None = None
    slow_with: tuple[str, ...] = ()
    seconds: Seconds = 0.0
    groups: tuple[IsolationGroup, ...] = ()

    @property
    def figures(self) -> str:
        """``0.0239 GB/s, its partners 1.2; in the run 0.0238, the others 1.1``; empty where nothing was compared."""
        parts = []
        if self.figure is not None and self.partners_figure is not None:
            parts.append(f"{self.figure:.3g} {self.unit}, its partners {self.partners_figure:.3g}")
        if self.first_figure is not None and self.first_others_figure is not None:
            parts.append(f"in the run {self.first_figure:.3g}, the others {self.first_others_figure:.3g}")
        return "; ".join(parts)


class Isolation(FieldwisePart, frozen=True, kw_only=True):
    """All suspects of a run. ``stopped``: why not all were measured again, empty where they were.

    ``interrupted``: its user did it. ``not_dropped``: nodes at fault that had to stay, so that enough are left.
    """

    seconds: Seconds
    suspects: tuple[Suspicion, ...]
    stopped: str = ""
    interrupted: bool = False
    not_dropped: tuple[DroppedNode, ...] = ()


class Continuation(FieldwisePart, frozen=True, kw_only=True):
    """That a run is the rest of another one, without the nodes that were dropped.

    ``first_run_id``: the run before, with all of them. ``nodes_before`` and ``world_size_before`` are those of the
    first of all; ``nodes_asked``: of --nodes, None where it was not given. ``isolation``: what proved it.
    """

    first_run_id: str
    nodes_before: Count
    world_size_before: Count
    nodes_asked: Count | None = None
    dropped: tuple[DroppedNode, ...]
    isolation: Isolation | None = None
