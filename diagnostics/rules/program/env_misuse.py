"""A variable has a value that NCCL reads in another way than meant.

Symptom: ``Invalid value 4G8 for NCCL_BUFFSIZE``; ``no algorithm/protocol available``; NCCL_IB_DISABLE=true, which
reads as 0.

Why: whole-number variables are read by C's rules: ``true`` and ``yes`` are 0, ``4M`` is 4. Forced algorithms do not
exist for every collective. A name in NCCL_IB_HCA is a prefix. Some names of old releases do nothing.

Not when: a forced algorithm works; the value is as documented.

Source: NCCL user guide, environment variables; NCCL's param.cc.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding, Severity
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, stopped_at

_TEXT_VARIABLES = (
    r"(?:IFNAME|HCA|FAMILY|FILE|ALGO|PROTO|LEVEL|PLUGIN|NET$|DEBUG|ADDR|HOSTID|COMM_ID|RANGE"
    r"|POLICY|SUBSYS|CONF|LAUNCH_MODE|FORMAT)"
)
_BYTES = r"_(?:BUFFSIZE|CHUNKSIZE)$"
_LEAST_BYTES = 1024  # below, it is no size of a buffer but what is left of "4M"
_DEAD = frozenset(
    {"NCCL_IB_CUDA_SUPPORT", "NCCL_IB_GDR_LEVEL", "NCCL_RINGS", "NCCL_LL_THRESHOLD", "NCCL_TREE_THRESHOLD"}
)


def check(facts: JobFacts) -> Outcome:
    """Found where NCCL rejects a value, where it reads it differently, or where a name does nothing."""
    findings = []
    if failed := facts.of("algorithm-unavailable", "algorithm-syntax"):
        findings.append(
            _conclude(
                facts,
                failed,
                "critical",
                "A forced algorithm or protocol cannot run this collective (NCCL_ALGO, NCCL_PROTO)",
            )
        )
    if refused := stopped_at(facts, "variable-refused"):
        summary = f"NCCL stops at the value of a variable: {refused[0].fields['text'][:140]}"
        findings.append(_conclude(facts, refused, "critical", summary))
    if invalid := facts.of("variable-invalid"):
        fields = invalid[0].fields
        taken = f"the default {fields['default']}" if "default" in fields else "another value"
        why = fields.get("limit", "")
        said = f"not what NCCL takes ({why})" if why else "not understood"
        summary = f"{fields['name']}={fields['value']} is {said}; {taken} is used"
        findings.append(_conclude(facts, invalid, "info" if why else "warning", summary))
    seen: set[str] = set()
    for event in facts.of("variable", "shell-variable"):
        message = _misread(event, facts)
        if message and event.fields["name"] not in seen:
            seen.add(event.fields["name"])
            findings.append(_conclude(facts, [event], _severity(event.fields["name"], facts), message))
    return found(*findings[:10]) if findings else CLEAR


def _severity(name: str, facts: JobFacts) -> Severity:
    """A buffer of a few bytes is what a start that fails to allocate failed of."""
    if compiled(_BYTES).search(name) and facts.failed and facts.of("cuda-failure", "gpu-out-of-memory"):
        return "critical"
    return "info" if name in _DEAD else "warning"


def _misread(event: Event, facts: JobFacts) -> str | None:
    name, value = event.fields["name"], event.fields["value"].strip().removesuffix(".")
    if not name.startswith("NCCL_"):
        return None
    if name in _DEAD:
        return f"{name} does nothing in current releases"
    if name == "NCCL_IB_HCA":
        return _prefix_hit(value, facts) if value[:1] not in ("=", "^") else None
    return None if compiled(_TEXT_VARIABLES).search(name) else _misread_number(name, value)


def _misread_number(name: str, value: str) -> str | None:
    if compiled(r"(?i)^(?:true|yes|on|enabled?)$").match(value):
        return f"{name}={value} is read as 0; write 1"
    if compiled(r"^\d+[KMGkmg]i?[Bb]?$").match(value):
        return f"{name}={value} is read as {value.rstrip('KMGkmgiBb')}; write the number of bytes"
    if compiled(_BYTES).search(name) and value.isdigit() and 0 < int(value[:9]) < _LEAST_BYTES:
        return f"{name}={value} is {value} bytes: of a size such as {value}M only the number is read; write bytes"
    return None


def _prefix_hit(value: str, facts: JobFacts) -> str | None:
    names = {device.name for device in facts.devices}
    for wanted in (part.split(":")[0] for part in value.split(",") if part):
        longer = sorted(name for name in names if name.startswith(wanted) and name[len(wanted) :].isdigit())
        if wanted in names and longer and wanted[-1:].isdigit():
            return (
                f"NCCL_IB_HCA={value} also takes {', '.join(longer[:4])}: names are prefixes; write "
                f"NCCL_IB_HCA=={value}"
            )
    return None


def _conclude(facts: JobFacts, events: list[Event], severity: Severity, summary: str) -> Finding:
    return conclude(
        facts,
        events,
        severity=severity,
        summary=summary,
        explanation=(
            "NCCL reads variables by fixed rules and mostly without complaint; what it made of this "
            "one is not what it says."
        ),
        occurrences=len(events),
        blocks=severity == "critical",
    )


RULE = Rule(
    id="env-misuse",
    title="A variable is read in another way than meant",
    severity="warning; critical where NCCL fails of it",
    actions=("unset-misread",),
    check=check,
    slow=True,
)
