"""A network plugin is there but does not work.

Symptom: ``NET/Plugin: libfabric.so.1: cannot open shared object file``, ``External network plugin ... is
unsupported``, ``aws-ofi-nccl initialization failed``, ``Couldn't open AV. RC: -22``, ``Request ... completed with
error``, or errors of the plugin while it registers memory.

Why, by stage. Loading: a library that the plugin needs is missing or too old. Opening: the plugin loads, and its
provider or devices cannot be opened. Registering: the memory that NCCL hands it cannot be used. Transferring: the
network worked, and the peer or the path to it is gone.

Not when: ``Failed to find ncclNetPlugin_v8 symbol``: NCCL tries interface versions from new to old, which is normal;
the missing file is the plugin itself; aws-ofi-nccl, which many container images bring along, finds no provider on a
machine whose InfiniBand works (info).

Source: NCCL's plugin loader; aws-ofi-nccl; UCX.
"""

from collections.abc import Sequence

from diagnostics import transport
from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.findings import Finding, Severity
from diagnostics.judging.error_number import named_error
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, found, stopped_at, warned
from diagnostics.rules.program.run_failed import says_to_go_on

_FAILURE = r"(?i)couldn't|could not|fail|unable|error|RC: -"
# what aws-ofi-nccl warns of on instances without EFA, and of its tuner and settings
_HARMLESS = r"(?i)only efa provider is supported|tuner|cuda flush enabled|set to invalid value|ll128"
_GOES_ON = r"find ncclGetVersion symbol"  # it asks whether this NCCL's NVLS has a fault (configure_nvls_option)
_UNSAID = r"(?i)unknown error|success|input/output"  # which names no reason
_NONE_YET = ("unknown", "none")
_VERBS = frozenset({"ib", "roce"})


def check(facts: JobFacts) -> Outcome:
    """Found where a plugin failed to load, to open its devices, to register memory, or in a transfer."""
    if refused := stopped_at(facts, "plugin-incompatible"):
        return found(_incompatible(facts, refused))
    if registration := warned(facts, "plugin-registration-failed"):
        return found(_registration(facts, registration))
    if transfers := facts.of("plugin-request-failed"):
        return found(_transfer(facts, transfers))
    if transport.job_network(facts) == "plugin:aws-ofi-nccl":  # one of the ways that it tries worked
        warnings = _ofi_warnings(facts)
        return found(_open(facts, warnings)) if warnings else CLEAR
    if load := transport.unloadable_plugins(facts):
        return found(_load(facts, load))
    refused = facts.of("ofi-failed") or _ofi_warnings(facts)
    return found(_open(facts, refused)) if refused else CLEAR


def _incompatible(facts: JobFacts, events: Sequence[Event]) -> Finding:
    return conclude(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"The network plugin does not fit this NCCL: {_reason(events)}",
        explanation="NCCL refuses what the plugin tells of itself: it is of another release, or its own settings are "
        "out of bounds. Take the plugin that was built for this NCCL.",
        actions=("check-plugin-libraries", "open-provider"),
    )


def _load(facts: JobFacts, events: Sequence[Event]) -> Finding:
    absent = facts.of("network-not-found")
    stops = "NCCL_NET names a network that this plugin offers, most likely: without it the run stops."
    return conclude(
        facts,
        [*events[:2], *absent[:1]],
        severity="critical" if absent else _severity_by_successor(facts, events, unneeded=facts.multi_node is False),
        summary=f"A network plugin is present but does not load: {_reason(events)}",
        explanation=f"The text names what the plugin misses. {stops if absent else _successor(facts)}",
        occurrences=len(events),
        blocks=bool(absent),
        actions=("check-plugin-libraries",),
    )


def _open(facts: JobFacts, events: Sequence[Event]) -> Finding:
    """What the plugin could not open: fatal for a process that does not go on, over it or another network."""
    network = transport.job_network(facts)
    named = facts.of("network", "network-assigned", "ofi-provider") or facts.net_channels
    in_use = network == "plugin:aws-ofi-nccl" and bool(named)
    went_on = all(facts.survived(event) for event in events)
    severity: Severity = "warning" if went_on else "critical"
    if network not in (*_NONE_YET, "plugin:aws-ofi-nccl"):
        unneeded = facts.multi_node is False or network in ("ib", "roce")
        severity = _severity_by_successor(facts, events, unneeded=unneeded)
    after = "" if went_on else "What the plugin in use cannot open, no other takes over."
    return conclude(
        facts,
        events,
        severity=severity,
        confidence="likely",
        summary=f"The network plugin loads and cannot open its network: {_reason(events)}",
        explanation="The provider, its devices or their limits refuse what the plugin asks for. "
        + (after if in_use else _successor(facts)),
        actions=("open-provider", "provider-efa"),
    )


def _transfer(facts: JobFacts, events: Sequence[Event]) -> Finding:
    return conclude(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"A transfer of the network plugin failed: {_reason(events)}",
        explanation="The plugin had loaded and connected. "
        + ("Mostly the" if compiled(_UNSAID).search(_reason(events)) else "The")
        + " receiver's process or host is gone, or the path between the two loses packets.",
        occurrences=facts.count("plugin-request-failed"),
        actions=("look-at-rank", "plugin-path", "measure-link"),
    )


def _registration(facts: JobFacts, events: list[Event]) -> Finding:
    fields = events[0].fields
    code = fields.get("code", "unknown")
    said = fields.get("ucx") or fields.get("insert") or str(named_error(f"RC: {code}") or f"code {code}")
    return conclude(
        facts,
        events,
        severity="critical",
        confidence="likely",
        summary=f"The network plugin fails while registering memory or connecting: {said[:120]}",
        explanation="The plugin loaded, but the memory that NCCL handed it could not be used. Proxy and "
        "connection errors that follow are consequences.",
        actions=("check-plugin-registration", "memlock"),
    )


def _severity_by_successor(facts: JobFacts, events: Sequence[Event], *, unneeded: bool) -> Severity:
    """How bad it is that a plugin is out of the choice: nothing where none is needed, the network where TCP follows.

    Where ranks have several networks, those of the processes whose plugin it is count.
    """
    if unneeded:
        return "info"
    works = {transport.job_network(facts)} <= _VERBS or _networks_of(events, facts) <= _VERBS
    return "warning" if works or facts.multi_node is None else "critical"


def _networks_of(events: Sequence[Event], facts: JobFacts) -> set[str]:
    """What the processes that print these lines chose at last; "unknown" where one does not say."""
    layer = transport.link_layer(facts)
    spoke = [facts.processes.get(event.origin.process) if event.origin.process else None for event in events]
    chosen = [list(process.networks)[-1:] if process is not None else [] for process in spoke]
    return {transport.network_class(names[0], layer) if names else "unknown" for names in chosen}


def _successor(facts: JobFacts) -> str:
    """What NCCL did without the plugin, as far as the log shows it."""
    network = transport.job_network(facts)
    if network in (*_NONE_YET, "plugin:aws-ofi-nccl"):
        return "The log does not show which network NCCL took after it, or whether it went on at all."
    return f"NCCL went on with the next network in its list: {network}."


def _reason(events: Sequence[Event]) -> str:
    """What the first event says went wrong, with the error in words where it is a number."""
    fields = events[0].fields
    reason = fields.get("reason") or fields.get("text") or "it cannot be initialised"
    error = named_error(reason if "reason" in fields else f"{reason} RC: {fields.get('code', '')}")
    known = error is None or error.text.lower() in reason.lower()
    return reason[:120] + ("" if known else f" ({error})")


def _ofi_warnings(facts: JobFacts) -> list[Event]:
    """Warnings of aws-ofi-nccl that tell of a failure, without those of the ways that it tries in turn."""
    tried = {(event.origin.file, event.origin.line) for event in facts.of("ofi-failed")}
    failures = [
        event
        for event in warned(facts, "ofi")
        if not compiled(_GOES_ON).search(event.fields["text"])
        and (compiled(_FAILURE).search(event.fields["text"]) or _is_last_word(event, facts))
    ]
    tried |= {(event.origin.file, event.origin.line) for event in facts.of("gdr-disabled-by-plugin")}
    return [event for event in failures if (event.origin.file, event.origin.line) not in tried]


def _is_last_word(event: Event, facts: JobFacts) -> bool:
    """Whether its process does nothing behind a warning, which then says why, whatever its words.

    A line without NCCL's prefix does not say that it is one: what a plugin tells of its start is pasted so, too.
    """
    if not event.origin.level or compiled(_HARMLESS).search(event.fields["text"]) or says_to_go_on(event):
        return False
    process = facts.processes.get(event.origin.process) if event.origin.process else None
    return process is None or process.last_progress <= event.origin.sequence


RULE = Rule(
    id="net-plugin-broken",
    title="A network plugin does not work",
    severity="warning, critical where the job depends on it",
    actions=("check-plugin-libraries", "open-provider", "plugin-path"),
    check=check,
    explained_by=("memlock-limit",),
)
