"""All rules asked of a window, and each finding told once."""

from collections.abc import Iterable, Sequence

from diagnostics.agent.options import INTERVAL_SECONDS
from diagnostics.agent.rules import live_rules
from diagnostics.agent.rules.base import LiveRule, Observed
from diagnostics.agent.window import Window

QUIET_SECONDS = 300.0  # after which something that comes back is told again
MAX_REMEMBERED = 4096


class Judge:
    """Asks each rule when it is due. ``broken`` has the rules that failed, and how; they are not asked again.

    ``blind`` has those that cannot tell from readings so far apart, and why.
    """

    def __init__(self, rules: Sequence[LiveRule] | None = None, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._rules = live_rules() if rules is None else rules
        self._asked: dict[str, float] = {}
        self.broken: dict[str, str] = {}
        self.blind = {
            rule.id: f"it needs readings at most {rule.longest_interval_seconds:g} s apart, not {interval_seconds:g} s"
            for rule in self._rules
            if interval_seconds > rule.longest_interval_seconds
        }

    def observed(self, window: Window) -> list[Observed]:
        """What the rules that are due see in the window."""
        found: list[Observed] = []
        for rule in self._rules:
            due = window.now - self._asked.get(rule.id, float("-inf")) >= rule.every_seconds
            if not due or rule.id in self.broken:
                continue
            self._asked[rule.id] = window.now
            try:
                found += rule.check(window)
            except Exception as error:  # noqa: BLE001 - one rule that breaks leaves the others, and says so
                self.broken[rule.id] = f"{type(error).__name__}: {error}"
        return found


class Told:
    """What was told. It is told again when its cause was gone for five minutes, or where it gets worse."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], float] = {}

    def fresh(self, observed: Iterable[Observed], now: float) -> list[Observed]:
        """Those that were not told yet, one a rule and device."""
        new = []
        for one in observed:
            key = one.finding.rule, one.device, one.finding.severity
            if now - self._seen.pop(key, float("-inf")) > QUIET_SECONDS:
                new.append(one)
            self._seen[key] = now  # the last is the latest
        while len(self._seen) > MAX_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return new
