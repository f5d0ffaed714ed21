"""Network plugins that do not load, are absent, or belong to a platform."""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled


def platform_signs(facts: JobFacts) -> list[Event]:
    """Lines that show a platform whose network is reached through a plugin only: EFA, Slingshot."""
    sign = compiled(r"\b(?:hsn\d|efa\b|rdmap\d|FI_PROVIDER=(?:efa|cxi)|aws-ofi|p[345]\w{0,3}\.\d+xlarge)")
    kinds = (
        "bootstrap-interface",
        "socket-devices",
        "variable",
        "shell-variable",
        "plugin-absent",
        "ofi",
        "topology-file",
    )
    return [event for event in facts.of(*kinds) if sign.search(event.text)]


def absent_named_plugin(facts: JobFacts) -> tuple[str, Event] | None:
    """A plugin that NCCL was told to load by name (NCCL_NET_PLUGIN) and whose file is not there, and the line.

    Without a name NCCL looks for ``libnccl-net.so`` alone; ``none`` is what users write to have no plugin.
    """
    if facts.of("plugin-loaded", "ofi-provider"):
        return None
    present = {_plugin_name(event.fields["library"]) for event in broken_plugins(facts)}
    for event in facts.of("plugin-absent", "plugin-load-error"):
        if event.kind == "plugin-absent" or _is_absent_plugin(event):
            text = event.fields.get("names") or event.fields.get("name") or event.fields.get("library", "")
            names = [_plugin_name(name) for name in text.split()]
            if names and not {"", "none", *present}.intersection(names):
                return names[0], event
    return None


def _plugin_name(library: str) -> str:
    """``custom`` of ``libnccl-net-custom.so``, and of the name alone; empty for NCCL's default file."""
    file = library.rsplit("/", 1)[-1].rstrip(".")
    named = compiled(r"^lib[nr]ccl[-_]net-?(.*?)\.so[.\d]*$").match(file)
    return named[1] if named else file


def broken_plugins(facts: JobFacts) -> list[Event]:
    """Lines that show a plugin that is there and does not load. One whose own file does not exist is merely absent."""
    return [event for event in facts.of("plugin-load-error") if not _is_absent_plugin(event)]


def unloadable_plugins(facts: JobFacts) -> list[Event]:
    """The same, and what NCCL says of a library that it could not load."""
    return broken_plugins(facts) + [event for event in facts.of("plugin-unusable") if "library" in event.fields]


def _is_absent_plugin(event: Event) -> bool:
    library = event.fields["library"].rsplit("/", 1)[-1]
    own = library.startswith(("libnccl-net", "librccl-net", "libnccl_net", "libnccl-gin", "libnccl-tuner"))
    return own and _without_name(event).startswith("cannot open shared object file: No such")


def _without_name(event: Event) -> str:
    """The linker's text on a library, without the library's name where it is given twice (2.22 and newer)."""
    library = event.fields["library"].rsplit("/", 1)[-1]
    head, mark, reason = event.fields["reason"].partition(": ")
    return reason if mark and head.rsplit("/", 1)[-1] == library else event.fields["reason"]
