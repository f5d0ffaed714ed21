"""One page without scripts or outside resources. Every text of the log is escaped."""

from html import escape

from diagnostics.findings import Diagnosis, Finding
from diagnostics.output.text import host_rows, job_rows, number, numbers, quoted, yes_no

_STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1c2430;--band:#f3f5f8;--line:#d8dee6;--side:#6b7889;--good:#1e7b34;
--bad:#b3261e;--warn:#8a5200;--info:#2f6db5;--unknown:#5f3a96}
@media screen and (prefers-color-scheme:dark){:root{--page:#12161c;--ink:#dde3ea;--band:#1c232c;--line:#343d49;
--side:#8b98a9;--good:#7ddb9b;--bad:#ff8a95;--warn:#ffcf70;--info:#7fb8f0;--unknown:#cdb2ff}}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:var(--ink);
background:var(--page);overflow-wrap:anywhere}
pre{background:var(--band);padding:.6rem .8rem;white-space:pre-wrap;word-break:break-word;font-size:13px}
table{border-collapse:collapse}td,th{border-bottom:1px solid var(--line);padding:.25rem .8rem .25rem 0;text-align:left}
section{border-left:4px solid var(--side);padding:.2rem 1rem;margin:1.4rem 0}
.critical{border-color:var(--bad)}.warning{border-color:var(--warn)}.info{border-color:var(--info)}
h1 span{color:var(--unknown)}h1 .ok{color:var(--good)}h1 .critical{color:var(--bad)}h1 .warning{color:var(--warn)}
@media print{h1,h2{break-after:avoid}tr,pre{break-inside:avoid}*{print-color-adjust:exact}}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(diagnosis: Diagnosis) -> str:
    """The whole page."""
    body = [_verdict(diagnosis), _jobs(diagnosis), _hosts(diagnosis)]
    body += [_finding(finding) for finding in diagnosis.findings]
    if diagnosis.rules_cannot_tell:
        rows = "".join(f"<li><code>{rules}</code>: {escape(why)}</li>" for rules, why in diagnosis.open_questions)
        body.append(f"<h2>What the log cannot tell</h2><ul>{rows}</ul>")
    lines = diagnosis.lines
    body.append(f"<p>{lines.read} lines read, {lines.nccl} of NCCL or PyTorch, {lines.unreadable} not readable.</p>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>NCCL diagnosis: {diagnosis.verdict}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body></html>\n"
    )


def _verdict(diagnosis: Diagnosis) -> str:
    rows = [
        ("network", diagnosis.network),
        ("GPUDirect RDMA", yes_no(diagnosis.gdr)),
        ("TCP fallback", yes_no(diagnosis.tcp_fallback)),
        ("ranks", number(diagnosis.world_size)),
        ("nodes", number(diagnosis.nodes)),
        ("NCCL", ", ".join(diagnosis.nccl_versions[:4]) or "version not shown"),
    ]
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return (
        f'<h1>NCCL diagnosis: <span class="{diagnosis.verdict}">{diagnosis.verdict}</span></h1>'
        f"<p>{escape(diagnosis.explanation)}</p><table>{cells}</table>"
    )


def _hosts(diagnosis: Diagnosis) -> str:
    rows = host_rows(diagnosis.ranks)
    if not rows:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("host", "ranks", "network", "NICs", "transports"))
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<h2>Hosts</h2><table><tr>{head}</tr>{cells}</table>"


def _jobs(diagnosis: Diagnosis) -> str:
    if not diagnosis.jobs:
        return ""
    head = "".join(f"<th>{name}</th>" for name in ("job", "verdict", "network", "ranks", "nodes", "first finding"))
    rows = job_rows(diagnosis.jobs)
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<h2>Jobs</h2><table><tr>{head}</tr>{cells}</table>"


def _finding(finding: Finding) -> str:
    whose = f"{escape(finding.job)}: " if finding.job else ""
    parts = [f'<section class="{finding.severity}"><h2>{whose}{escape(finding.rule)}: {escape(finding.summary)}</h2>']
    parts.append(f"<p>{escape(finding.explanation)} <em>({finding.severity}, {finding.confidence})</em></p>")
    if finding.ranks or finding.hosts:
        where = f"ranks {numbers(finding.ranks) or '?'}; hosts {', '.join(finding.hosts[:12]) or '?'}"
        parts.append(f"<p>{escape(where)}</p>")
    if finding.evidence:
        parts.append(f"<pre>{escape(chr(10).join(quoted(evidence) for evidence in finding.evidence))}</pre>")
    if finding.victims:
        parts.append(
            f"<p>Follows from it:</p><pre>{escape(chr(10).join(quoted(line) for line in finding.victims[:8]))}</pre>"
        )
    for action in finding.recommendations:
        link = f' <a href="{escape(action.link)}">documentation</a>' if action.link else ""
        parts.append(f"<p>{escape(action.text)}{link}</p>")
        parts += [f"<pre>{escape(chr(10).join(action.commands))}</pre>"] if action.commands else []
    return "".join([*parts, "</section>"])
