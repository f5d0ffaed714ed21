"""The rules over samples, one file each. The table is literal: a rule that is not in it does not exist."""

import importlib
from functools import cache

from diagnostics.agent.rules.base import LiveRule

RULES = (
    "port-errors",
    "rdma-retransmissions",
    "packets-discarded",
    "tcp-retransmissions",
    "link-down",
    "device-vanished",
    "nic-fault",
    "gpu-throttled",
    "gpu-memory-errors",
    "gpu-xid",
    "nvlink-errors",
    "gpu-underused",
    "node-swaps",
    "memory-pressure",
    "oom-kill",
    "memory-grows",
    "disk-full",
    "cpu-contention",
    "cpu-limit",
    "machine-check",
    "nfs-silent",
)


@cache
def live_rules() -> tuple[LiveRule, ...]:
    """Every rule, in the order of the table."""
    return tuple(_load(rule_id) for rule_id in RULES)


def _load(rule_id: str) -> LiveRule:
    rule: LiveRule = importlib.import_module(f"diagnostics.agent.rules.{rule_id.replace('-', '_')}").RULE
    return rule
