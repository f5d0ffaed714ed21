"""A network plugin is there but does not work.

Symptom: ``NET/Plugin: libfabric.so.1: cannot open shared object file``, ``External network plugin ... is
unsupported``, ``aws-ofi-nccl initialization failed``, or errors of the plugin while it registers memory.

Why: the plugin's file was found, but a library it needs is missing or too old, its device cannot be initialised, or
the memory it is given cannot be registered.

Not when: ``Failed to find ncclNetPlugin_v8 symbol``: NCCL tries interface versions from new to old, which is normal;
the missing file is the plugin itself; aws-ofi-nccl, which many container images bring along, finds no provider on a
machine whose InfiniBand works (info).

Source: NCCL's plugin loader; aws-ofi-nccl; UCX.
"""

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, warned

_FAILURE = r"(?i)couldn't|could not|fail|unable|error|RC: -"


def check(facts: JobFacts) -> Outcome:
    """Found where a plugin failed to load, to initialise, to register memory, or in a transfer."""
    registration = warned(facts, "plugin-registration-failed")
    if registration:
        return found(_registration(facts, registration))
    network = transport.job_network(facts)
    if network == "plugin:aws-ofi-nccl":  # it tries several ways of its own, and one of them worked
        return _in_use(facts)
    broken = transport.broken_plugins(facts) + (facts.of("ofi-failed") or _ofi_warnings(facts))
    broken += [event for event in facts.of("plugin-unusable") if "library" in event.fields]
    if not broken:
        return CLEAR
    works = network in ("ib", "roce")
    unneeded = facts.multi_node is False or (works and all(event.kind.startswith("ofi") for event in broken))
    fields = broken[0].fields
    reason = fields.get("reason") or fields.get("text") or "it cannot be initialised"
    return found(
        conclude(
            facts,
            broken,
            severity="info" if unneeded else "warning" if works or facts.multi_node is None else "critical",
            summary=f"A network plugin is present but does not load: {reason[:120]}",
            explanation=(
                "NCCL goes on with the next network in its list, which may be TCP. The text names "
                "what the plugin misses."
            ),
        )
    )


def _ofi_warnings(facts: JobFacts) -> list[Event]:
    """Warnings of aws-ofi-nccl that tell of a failure, without those of the ways that it tries in turn."""
    tried = {(event.origin.file, event.origin.line) for event in facts.of("ofi-failed")}
    failures = [event for event in warned(facts, "ofi") if compiled(_FAILURE).search(event.fields["text"])]
    tried |= {(event.origin.file, event.origin.line) for event in facts.of("gdr-disabled-by-plugin")}
    return [event for event in failures if (event.origin.file, event.origin.line) not in tried]


def _in_use(facts: JobFacts) -> Outcome:
    """Errors of the plugin that NCCL chose: fatal where no data channel came to be."""
    events = _ofi_warnings(facts)
    if not events:
        return CLEAR
    return found(
        conclude(
            facts,
            events,
            severity="warning" if transport.data_channels(facts) else "critical",
            confidence="likely",
            summary=f"The network plugin in use reports an error: {events[0].fields['text'][:120]}",
            explanation="NCCL gave its network to this plugin; what it cannot open or send, no other takes over.",
            actions=("check-plugin-libraries", "provider-efa"),
        )
    )


def _registration(facts: JobFacts, events: list[Event]) -> Finding:
    fields = events[0].fields
    reason = fields.get("ucx") or fields.get("insert") or f"code {fields.get('code', 'unknown')}"
    return conclude(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"The network plugin fails while registering memory or connecting: {reason[:120]}",
        explanation="The plugin loaded, but the memory that NCCL handed it could not be used. Proxy and "
        "connection errors that "
        "follow are consequences.",
        actions=("check-plugin-registration", "memlock"),
    )


RULE = Rule(
    id="net-plugin-broken",
    title="A network plugin does not work",
    severity="warning, critical where the job depends on it",
    actions=("check-plugin-libraries",),
    check=check,
)
