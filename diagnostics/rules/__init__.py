"""The rules, one file each, in a folder by subject. The table is literal: a rule that is not in it does not exist."""

import importlib
from functools import cache

from diagnostics.errors import UnknownRuleError
from diagnostics.rules.base import Rule

# Each rule by its id, in the order in which they are listed, with the folder that its file is in.
RULES: dict[str, str] = {
    "tcp-fallback": "transport",
    "rdma-disabled-by-env": "transport",
    "rdma-device-missing": "transport",
    "rdma-device-not-openable": "transport",
    "libibverbs-missing": "transport",
    "hca-filter-excludes-all": "transport",
    "net-plugin-missing": "transport",
    "net-plugin-broken": "transport",
    "net-plugin-provider-tcp": "transport",
    "gdr-missing": "gpudirect",
    "gdr-module-missing": "gpudirect",
    "gdr-distance": "gpudirect",
    "gdr-level-lowered": "gpudirect",
    "gdr-disabled-by-plugin": "gpudirect",
    "gdr-partial": "gpudirect",
    "gin-unavailable": "gpudirect",
    "gdrcopy-failed": "gpudirect",
    "nic-count-mismatch": "transport",
    "hca-mixed-link-layers": "transport",
    "hca-wrong-included": "transport",
    "ranks-disagree-on-transport": "transport",
    "no-socket-interface": "bootstrap",
    "wrong-interface": "bootstrap",
    "bootstrap-unreachable": "bootstrap",
    "bootstrap-mismatch": "bootstrap",
    "version-mismatch": "bootstrap",
    "roce-gid-invalid": "rdma",
    "ib-connect-failed": "rdma",
    "ib-retry-exceeded": "rdma",
    "ib-protection-error": "rdma",
    "ib-port-down": "rdma",
    "ib-async-event": "rdma",
    "memlock-limit": "rdma",
    "memory-registration-failed": "rdma",
    "p2p-disabled": "node",
    "p2p-ipc-failed": "node",
    "host-identity-mismatch": "bootstrap",
    "shm-too-small": "node",
    "shm-attach-failed": "node",
    "duplicate-gpu": "node",
    "single-rank-jobs": "bootstrap",
    "gpu-out-of-memory": "node",
    "cuda-error": "node",
    "nvls-failed": "node",
    "sharp-unavailable": "transport",
    "topology-degraded": "node",
    "host-settings": "node",
    "collective-mismatch": "collectives",
    "watchdog-timeout": "collectives",
    "straggler": "collectives",
    "init-hang": "bootstrap",
    "job-cancelled": "program",
    "peer-died": "program",
    "application-error": "program",
    "env-inconsistent": "program",
    "env-misuse": "program",
    "file-limit": "node",
    "thread-limit": "node",
    "host-memory-exhausted": "node",
    "nccl-limit-exceeded": "node",
    "low-speedup": "collectives",
    "sync-overhead": "collectives",
    "ras-port-in-use": "collectives",
    "ras-report": "collectives",
    "collective-slow": "collectives",
    "log-too-quiet": "program",
    "log-truncated": "program",
    "run-failed": "program",
    "unclassified-warning": "program",
}
RULE_IDS = tuple(RULES)


@cache
def load_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the table."""
    return tuple(_load(rule_id) for rule_id in RULE_IDS)


def rule_named(rule_id: str) -> Rule:
    """The rule of that id. Raises UnknownRuleError."""
    if rule_id not in RULE_IDS:
        raise UnknownRuleError(f"there is no rule '{rule_id}'; `raybench diagnose --list-rules` shows them all")
    return _load(rule_id)


def _load(rule_id: str) -> Rule:
    rule: Rule = importlib.import_module(f"diagnostics.rules.{RULES[rule_id]}.{rule_id.replace('-', '_')}").RULE
    return rule
