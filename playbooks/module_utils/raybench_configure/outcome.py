"""One item from its options to what is reported of it."""

from __future__ import annotations

from typing import Any

from .engine import ItemOutcome, carry_out
from .errors import ConfigureError
from .host import Host
from .items import ITEMS
from .journal import Journal
from .plan import ItemPlan


def configure_item(host: Host, item: str, options: dict[str, Any], *, check: bool) -> dict[str, Any]:
    """ItemPlan an item and carry it out. Whatever goes wrong with it is in its own entry."""
    try:
        plan = ITEMS[item](host, options)
        outcome = ItemOutcome()
        if plan.settings and plan.problem is None:
            outcome = carry_out(host, Journal(host), item, plan, check=check)
    except ConfigureError as error:
        return entry(item, ItemPlan(problem=str(error)), ItemOutcome())
    return entry(item, plan, outcome)


def entry(item: str, plan: ItemPlan, outcome: ItemOutcome) -> dict[str, Any]:
    """An item as it is reported."""
    problem = plan.problem or outcome.problem
    return {
        "item": item,
        "verdict": _verdict(plan, outcome),
        "message": f"{item}: {problem}" if problem else plan.skipped or "",
        "changes": outcome.changes,
        "diff": outcome.diff,
        "notes": plan.notes,
        "advice": plan.advice,
        "pending": plan.pending if outcome.changes else [],
        "reboot": plan.reboot,
        "conflicts": outcome.conflicts,
    }


def _verdict(plan: ItemPlan, outcome: ItemOutcome) -> str:
    if plan.problem or outcome.problem:
        return "failed"
    if outcome.conflicts:
        return "conflict"
    if outcome.changes:
        return "changed"
    return "skipped" if plan.skipped else "right"
