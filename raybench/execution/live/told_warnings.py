"""How many warnings of one rule a person is shown: of a thousand nodes in the same trouble few, and all are kept."""

from collections import Counter
from dataclasses import dataclass, field

from raybench.execution.live.warning import LiveWarning

MOST_SHOWN = 50  # of one rule in one run; its end is shown where its beginning was
WARNINGS_FILE = "warnings.jsonl"


@dataclass(kw_only=True)
class ToldWarnings:
    """Those of one run."""

    _begun: Counter[str] = field(default_factory=Counter)

    def line(self, warning: LiveWarning) -> str:
        """What to show for it; empty where nothing is."""
        if warning.over:
            return warning.line if self._begun[warning.rule] <= MOST_SHOWN else ""
        self._begun[warning.rule] += 1
        if self._begun[warning.rule] == MOST_SHOWN + 1:
            return f"{MOST_SHOWN} warnings of {warning.rule} were shown; all of them are in {WARNINGS_FILE}"
        return warning.line if self._begun[warning.rule] <= MOST_SHOWN else ""
