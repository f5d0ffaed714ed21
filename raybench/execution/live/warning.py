"""One warning of a run that goes on, as it is shown, and kept in ``warnings.jsonl``."""

import msgspec

from diagnostics.findings import Severity


class LiveWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Said once; and again when it is ``over``. Seconds are since the run's start; ``since_seconds``: when it began.

    ``of``: ``ranks`` where the ranks' marks and records show it, else ``agent``.
    """

    at_seconds: float
    since_seconds: float
    rule: str
    severity: Severity
    text: str
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    over: bool = False
    of: str = "ranks"

    @property
    def line(self) -> str:
        """As it stands on the terminal."""
        return self.text if self.over else f"{self.severity.upper()}: {self.text}"
