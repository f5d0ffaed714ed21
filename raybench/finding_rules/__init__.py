"""Every rule that a finding can be of, once: those of logs (``diagnostics.rules``), then those of runs and fabrics.

A rule has its id, title, severity, page and advice in one place; findings are made by it (``FindingRule.finding``), and
docs/findings.md is its page.
"""
