"""The form of a rule whose findings come from what raybench does or measures itself, not from a log."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from diagnostics.finding_rule import FindingRule
from diagnostics.findings import Recommendation


class _Placeholders(dict[str, str]):
    """Every name as ``<name>``, for a page."""

    def __missing__(self, name: str) -> str:
        return f"<{name}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRule(FindingRule):
    """``text`` is its page. ``recommended`` may name values in braces: those of the finding."""

    text: str
    recommended: tuple[Recommendation, ...]

    @property
    def page(self) -> str:
        """Title line, symptom, reason, limits and source."""
        return self.text.strip()

    @property
    def advice(self) -> tuple[Recommendation, ...]:
        """What to do, with the names of the values that a finding has."""
        return self._filled(_Placeholders())

    def advise(self, **values: object) -> tuple[Recommendation, ...]:
        """What to do about a finding with these values. Raises KeyError where one is missing."""
        return self._filled({name: str(value) for name, value in values.items()})

    def _filled(self, values: Mapping[str, str]) -> tuple[Recommendation, ...]:
        return tuple(
            replace(
                one,
                text=one.text.format_map(values),
                commands=tuple(command.format_map(values) for command in one.commands),
            )
            for one in self.recommended
        )


def advice(action: str, text: str, *commands: str) -> tuple[Recommendation, ...]:
    """One thing to do."""
    return (Recommendation(action=action, text=text, commands=commands),)
