"""Are the hosts alike? A group's majority is taken for right, and the odd ones out are named; a tie names all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from raybench.documents.preflight import CheckResult
from raybench.preflight.attributes import OPTIONAL, Attribute, Kind
from raybench.verdicts import CheckVerdict, worst

KINDS: tuple[Kind, ...] = get_args(Kind)
_BASIS = "what most hosts of the group have"
_ADVICE: Mapping[str, str] = {
    "hardware": "a part may have failed or be missing; or name groups with preflight_group",
    "system": "bring the hosts to one image; raybench configure sets governor, NUMA balancing and /etc/nccl.conf, "
    "nvidia-smi -pl, -e, -c and -ac the GPUs' power limit, ECC, compute mode and clocks",
    "versions": "install the same versions; raybench cluster up brings one Python environment to all hosts",
    "network": "raybench configure --tags mtu,roce_qos sets MTU and QoS; compare ip route, sysctl, /etc/resolv.conf",
    "limits": "raybench configure --tags memlock,nofile sets them alike; then log in again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An attribute in which hosts of a group differ. ``majority`` is None where no value is the most frequent one.

    ``values`` are the hosts by value; ``odd`` the hosts that do not have the majority's, all of them in a tie.
    """

    group: str
    attribute: str
    kind: Kind
    serious: bool
    majority: str | None
    values: Mapping[str, tuple[str, ...]]

    @property
    def odd(self) -> tuple[str, ...]:
        """Hosts that do not have the majority's value."""
        return tuple(host for value, hosts in self.values.items() if value != self.majority for host in hosts)

    @property
    def verdict(self) -> CheckVerdict:
        """A difference without a majority names nobody for sure, so it warns."""
        return "fail" if self.serious and self.majority is not None else "warn"


def differences(
    hosts: Mapping[str, Sequence[Attribute]], groups: Mapping[str, str], ignored: Sequence[str] = ()
) -> tuple[Difference, ...]:
    """Attributes in which the hosts of each group differ. ``ignored`` are beginnings of attributes' names."""
    found = []
    for group in dict.fromkeys(groups.values()):
        members = [host for host in hosts if groups.get(host) == group]
        if len(members) > 1:
            found += _within(group, {host: hosts[host] for host in members}, tuple(ignored))
    return tuple(found)


def _within(group: str, hosts: Mapping[str, Sequence[Attribute]], ignored: tuple[str, ...]) -> list[Difference]:
    table: dict[str, dict[str, str]] = {}
    kinds: dict[str, Attribute] = {}
    for host, attributes in hosts.items():
        for attribute in attributes:
            table.setdefault(attribute.name, {})[host] = attribute.value
            kinds.setdefault(attribute.name, attribute)
    asked = {
        marker: [host for host, attributes in hosts.items() if any(one.name.startswith(marker) for one in attributes)]
        for _, marker, _ in OPTIONAL
    }
    found = []
    for name, values in table.items():
        if name.startswith(ignored) if ignored else False:
            continue
        for prefix, marker, absent in OPTIONAL:
            if name.startswith(prefix):
                values = {host: values.get(host, absent) for host in asked[marker]}  # noqa: PLW2901
        if len(set(values.values())) > 1:
            found.append(_difference(group, kinds[name], values))
    return found


def _difference(group: str, attribute: Attribute, values: Mapping[str, str]) -> Difference:
    counts = Counter(values.values()).most_common()
    tied = counts[0][1] == counts[1][1]
    by_value = {value: tuple(host for host, own in values.items() if own == value) for value, _ in counts}
    return Difference(
        group=group,
        attribute=attribute.name,
        kind=attribute.kind,
        serious=attribute.serious,
        majority=None if tied else counts[0][0],
        values=by_value,
    )


def drift_results(host: str, found: Sequence[Difference], *, compared: bool) -> tuple[CheckResult, ...]:
    """One result a kind for a host. ``compared`` says whether there was another host to compare with."""
    if not compared:
        return tuple(
            CheckResult(check=f"drift-{kind}", verdict="skipped", seen="no other host of its kind") for kind in KINDS
        )
    return tuple(
        _kind_result(host, kind, [one for one in found if one.kind == kind and host in one.odd]) for kind in KINDS
    )


def _kind_result(host: str, kind: Kind, own: Sequence[Difference]) -> CheckResult:
    if not own:
        return CheckResult(check=f"drift-{kind}", verdict="pass", seen="as the others", expected=_BASIS)
    ordered = sorted(own, key=lambda one: not one.serious)
    return CheckResult(
        check=f"drift-{kind}",
        verdict=worst([one.verdict for one in own]),
        seen="; ".join(f"{one.attribute}: {_value(one, host)}" for one in ordered),
        expected="; ".join(f"{one.attribute}: {_expected(one)}" for one in ordered),
        basis=_BASIS,
        advice=_ADVICE[kind],
        effect="" if any(one.majority is not None for one in own) else "nothing",  # a tie names nobody
    )


def _value(one: Difference, host: str) -> str:
    return next((value for value, hosts in one.values.items() if host in hosts), "")


def _expected(one: Difference) -> str:
    if one.majority is not None:
        return f"{one.majority} ({len(one.values[one.majority])} hosts)"
    return "no majority: " + ", ".join(f"{value} ({len(hosts)})" for value, hosts in one.values.items())
