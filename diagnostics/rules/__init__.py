"""The rules, one file each. The table is literal: a rule that is not in it does not exist."""

import importlib
from difflib import get_close_matches
from functools import cache

from diagnostics.errors import UnknownRuleError
from diagnostics.rules.base import Rule

RULE_IDS: tuple[str, ...] = (
    "tcp-fallback",
    "rdma-disabled-by-env",
    "rdma-device-missing",
    "rdma-device-not-openable",
    "libibverbs-missing",
    "hca-filter-excludes-all",
    "net-plugin-missing",
    "net-plugin-broken",
    "net-plugin-provider-tcp",
    "gdr-missing",
    "gdr-module-missing",
    "gdr-distance",
    "gdr-level-lowered",
    "gdr-disabled-by-plugin",
    "gdr-partial",
    "nic-count-mismatch",
    "hca-mixed-link-layers",
    "hca-wrong-included",
    "ranks-disagree-on-transport",
    "no-socket-interface",
    "wrong-interface",
    "bootstrap-unreachable",
    "bootstrap-mismatch",
    "version-mismatch",
    "roce-gid-invalid",
    "ib-connect-failed",
    "ib-retry-exceeded",
    "ib-protection-error",
    "ib-port-down",
    "ib-async-event",
    "memlock-limit",
    "memory-registration-failed",
    "p2p-disabled",
    "p2p-ipc-failed",
    "host-identity-mismatch",
    "shm-too-small",
    "shm-attach-failed",
    "duplicate-gpu",
    "single-rank-jobs",
    "gpu-out-of-memory",
    "cuda-error",
    "nvls-failed",
    "sharp-unavailable",
    "topology-degraded",
    "host-settings",
    "collective-mismatch",
    "watchdog-timeout",
    "straggler",
    "init-hang",
    "job-cancelled",
    "peer-died",
    "application-error",
    "env-inconsistent",
    "env-misuse",
    "file-limit",
    "low-speedup",
    "sync-overhead",
    "ras-port-in-use",
    "ras-report",
    "collective-slow",
    "log-too-quiet",
    "log-truncated",
    "run-failed",
    "unclassified-warning",
)


@cache
def load_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the table."""
    return tuple(_load(rule_id) for rule_id in RULE_IDS)


def rule_named(rule_id: str) -> Rule:
    """The rule of that id. Raises UnknownRuleError."""
    if rule_id not in RULE_IDS:
        near = get_close_matches(rule_id.lower().replace("_", "-"), RULE_IDS, n=1)
        meant = f": did you mean '{near[0]}'?" if near else ";"
        raise UnknownRuleError(f"there is no rule '{rule_id}'{meant} `raybench diagnose --list-rules` shows them all")
    return _load(rule_id)


def _load(rule_id: str) -> Rule:
    rule: Rule = importlib.import_module(f"diagnostics.rules.{rule_id.replace('-', '_')}").RULE
    return rule
