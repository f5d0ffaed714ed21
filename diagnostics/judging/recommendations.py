"""What to try: data, not branches. A rule names actions; the setting of the job chooses and orders their texts."""

from collections.abc import Iterable
from dataclasses import dataclass

from diagnostics.actions import ACTIONS
from diagnostics.facts import JobFacts
from diagnostics.findings import Recommendation
from diagnostics.parsers.base import compiled
from diagnostics.transport import gpus_without_gdr, link_layer

Setting = frozenset[str]

_CONTAINER_HOST = r"^[0-9a-f]{12}$|-worker-\d+$|-(?:master|launcher|node)-\d+(?:-\d+)?$|-[a-z0-9]{5}$|-\d+-[a-z0-9]{5}$"
_KUBERNETES_HOST = (
    r"-(?:worker|master|launcher|node)-\d+(?:-\d+)?$|-[a-z0-9]*\d[a-z0-9]*-[a-z0-9]{5}$|--\d+-[a-z0-9]{5}$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One thing to try. ``only`` and ``never`` name settings; an action with ``only`` needs one of them."""

    id: str
    text: str
    commands: tuple[str, ...] = ()
    link: str = ""
    only: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


def setting_of(facts: JobFacts) -> Setting:
    """What the log shows of the surroundings: ``amd``, ``efa``, ``roce``, ``infiniband``, ``container`` and so on."""
    found: set[str] = set()
    if facts.library == "RCCL":
        found.add("amd")
    layer = link_layer(facts)
    if layer == "roce" or any(device.layer == "RoCE" for device in facts.devices):
        found.add("roce")
    elif layer == "ib":
        found.add("infiniband")
    if any("efa" in event.text.lower() for event in facts.of("ofi", "ofi-provider", "ofi-platform")):
        found.add("efa")
    if any(device.name.startswith(("hfi", "opa")) for device in facts.devices):
        found.add("omnipath")
    if gpus_without_gdr(facts):
        found.add("no-gdr")
    if any(compiled(_CONTAINER_HOST).search(host) for host in facts.hosts):
        found.add("container")
    if any(compiled(_KUBERNETES_HOST).search(host) for host in facts.hosts):
        found.add("kubernetes")
    if any(compiled(r"^\s*\d+: ").match(event.text) for event in facts.of("version", "bootstrap-interface", "network")):
        found.add("slurm")
    return frozenset(found)


def recommend(actions: Iterable[str], setting: Setting) -> tuple[Recommendation, ...]:
    """The actions that fit the setting, those made for it first, else in the order of the rule."""
    fitting = [action for name in actions for action in _variants(name) if _fits(action, setting)]
    fitting.sort(key=lambda action: not action.only)
    return tuple(
        Recommendation(action=action.id, text=action.text, commands=action.commands, link=action.link)
        for action in fitting
    )


def _fits(action: Action, setting: Setting) -> bool:
    return not (action.never & setting) and (not action.only or bool(action.only & setting))


def _variants(name: str) -> Iterable[Action]:
    for row in ACTIONS[name]:
        yield Action(
            id=name,
            text=row["text"],
            commands=tuple(row.get("commands", ())),
            link=row.get("link", ""),
            only=frozenset(row.get("only", ())),
            never=frozenset(row.get("never", ())),
        )
