"""The words in which every document and report ends, and their exit codes: the standard library is all they need.

===========  =========  =======================================================================================
verdict      exit code  it means
===========  =========  =======================================================================================
ok           0          something was judged, and no problem was found; the reason says what was and was not judged
warning      0          a finding that is worth a look
unknown      3          everything that was asked for was measured, and nothing of it could be judged, or not by
                        the baseline that was given, or pairs are slow and it cannot be told because of whom
critical     1          wrong data, or a finding that is critical
incomplete   3          not everything that was asked for was measured; what was is kept
===========  =========  =======================================================================================

Those of a log are defined in ``diagnostics``; ``incomplete`` is for none. ``raybench diagnose --fail-on`` says which of
them exit with 1. A preflight has the verdict of its worst check instead, and exits with 0 where none failed, 1 where
one did, and 3 where a check broke or all that failed is that hosts did not answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from diagnostics.findings import Verdict as LogVerdict

Verdict = Literal[LogVerdict, "incomplete"]
# How much of what was asked for was done.
RunStatus = Literal["complete", "partial", "failed"]
# Of one check or test, and of a host: as good as the worst of its own. ``error``: it could not be made.
CheckVerdict = Literal["pass", "warn", "fail", "skipped", "unknown", "error"]
TestVerdict = Literal["pass", "warn", "fail", "error"]
# Whether a scheduler shall give a node jobs. ``unknown``: what decides it was not seen; neither healthy nor at fault.
NodeState = Literal["healthy", "degraded", "drain", "unknown"]
# What a check that did not pass means for its node.
NodeEffect = Literal["drain", "unknown", "degraded", "nothing"]
NODE_STATES: tuple[NodeState, ...] = ("healthy", "degraded", "drain", "unknown")
SEVERITY: tuple[CheckVerdict, ...] = ("skipped", "pass", "unknown", "warn", "error", "fail")  # the best first
EXIT_CODES: Mapping[Verdict, int] = {"ok": 0, "warning": 0, "unknown": 3, "critical": 1, "incomplete": 3}


def exit_code_of(verdict: Verdict | None) -> int:
    """With which a command ends whose document has this verdict; None: there was nothing to judge."""
    return 0 if verdict is None else EXIT_CODES[verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """A verdict, and the reason for it in one line."""

    verdict: Verdict
    reason: str

    @property
    def exit_code(self) -> int:
        """With which a command ends."""
        return exit_code_of(self.verdict)

    @property
    def line(self) -> str:
        """``VERDICT: OK: data verified, no finding``, as a terminal shows it."""
        return f"VERDICT: {self.verdict.upper()}: {self.reason}"


def worst(verdicts: Iterable[CheckVerdict]) -> CheckVerdict:
    """The worst of some verdicts; ``skipped`` where there is none."""
    return max(verdicts, key=SEVERITY.index, default="skipped")
