"""What a check says: a verdict with what was seen, what was expected, on what basis, and what to do."""

from dataclasses import dataclass, replace
from typing import Literal

from raybench.verdicts import CheckVerdict, NodeEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The part of a result that a check itself gives."""

    verdict: CheckVerdict
    seen: str
    expected: str = ""
    basis: str = ""
    advice: str = ""
    effect: NodeEffect | Literal[""] = ""
    action: str = ""

    def for_node(self, *, effect: NodeEffect | Literal[""] = "", action: str = "") -> "Judgement":
        """The same, where this case means something else for its node than the check's row of ``node_table.py``."""
        return replace(self, effect=effect or self.effect, action=action or self.action)


def passed(seen: str, expected: str = "", basis: str = "") -> Judgement:
    """It is as it should be."""
    return Judgement(verdict="pass", seen=seen, expected=expected, basis=basis)


def warned(seen: str, expected: str, basis: str, advice: str) -> Judgement:
    """It works, but not as well as it could."""
    return Judgement(verdict="warn", seen=seen, expected=expected, basis=basis, advice=advice)


def failed(seen: str, expected: str, basis: str, advice: str) -> Judgement:
    """It is broken, or will break a run."""
    return Judgement(verdict="fail", seen=seen, expected=expected, basis=basis, advice=advice)


def skipped(why: str) -> Judgement:
    """There is nothing here to check."""
    return Judgement(verdict="skipped", seen=why)


def unknown(why: str, advice: str = "") -> Judgement:
    """It could not be read: neither a pass nor a fault of the host."""
    return Judgement(verdict="unknown", seen=why, advice=advice)
