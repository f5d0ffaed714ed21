"""What a preflight finds on hosts: one rule, since each check says itself what it saw, what it expected and why."""

from raybench.finding_rules.rule import MeasuredRule, advice

CHECK = MeasuredRule(
    id="preflight-check",
    title="A host does not pass a check of its setup",
    severity="critical; warning where the check warns, or could not be made",
    text="""
A check of `raybench preflight` did not pass on one host or several.

Symptom: what the check saw on these hosts is not what it expects.

Why: the check says so with the finding: what it expected, and on what basis.

Not when: the check was skipped, or what it needs cannot be read on the host: that is not a fault of the host.

Source: the probe of each host, or of all hosts together.
""",
    recommended=advice("do-as-the-check-says", "{advice}"),
)

RULES = (CHECK,)
