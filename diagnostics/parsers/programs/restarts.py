"""How agents say that they start the ranks again after a failure, and Kubernetes that it will try a container again."""

from diagnostics.parsers.programs.rows import rows

RESTART = "restarted"
_AGENTS = (
    (
        "will restart worker group",
        r"will restart worker group",
        "[default] Worker group FAILED. 3/3 attempts left; will restart worker group",
    ),
)
_PODS = (
    (
        "kubelet",
        r"^\s*Warning +Failed +.*\bkubelet(?:, \S+)? +Error: .*",
        "  Warning  Failed  28m (x12 over 30m)  kubelet  Error: device plugin PreStartContainer rpc failed with err: x",
    ),
)

PATTERNS = rows(RESTART, _AGENTS, _PODS)
