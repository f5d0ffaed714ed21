"""How a driver calls node actors and waits for their answers: through Ray, or links (``execution/launched``)."""

from collections.abc import Sequence
from typing import Any, Protocol

from raybench.errors import IncompleteRunError


class CallError(IncompleteRunError):
    """A call that has no answer, by who was called."""


class Calls(Protocol):
    """What waits for calls. A reference is what ``actor.answer.remote(...)`` returned."""

    def wait(self, references: Sequence[Any], count: int, seconds: float) -> tuple[list[Any], list[Any]]:
        """Those that are answered, once ``count`` are or the time is over, and the others."""

    def result(self, reference: Any, seconds: float | None = None) -> Any:
        """The answer. Raises one of ``errors``."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What ``result`` raises for a call that failed."""


class RayCalls:
    """Calls of Ray actors."""

    def wait(self, references: Sequence[Any], count: int, seconds: float) -> tuple[list[Any], list[Any]]:
        """See Calls."""
        import ray

        ready, waiting = ray.wait(list(references), num_returns=count, timeout=seconds)
        return list(ready), list(waiting)

    def result(self, reference: Any, seconds: float | None = None) -> Any:
        """See Calls."""
        import ray

        return ray.get(reference, timeout=seconds)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """See Calls."""
        import ray

        return (ray.exceptions.RayError,)
