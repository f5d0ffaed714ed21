"""How agents say that they start the ranks again after a failure."""

from diagnostics.parsers.programs.rows import rows

RESTART = "restarted"
_AGENTS = (
    (
        "will restart worker group",
        r"will restart worker group",
        "[default] Worker group FAILED. 3/3 attempts left; will restart worker group",
    ),
)

PATTERNS = rows(RESTART, _AGENTS)
