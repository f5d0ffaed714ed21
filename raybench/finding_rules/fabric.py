"""What a fabric test finds at fault: one rule a kind of suspect."""

from collections.abc import Mapping

from raybench.finding_rules.rule import MeasuredRule, advice

_SEVERITY = "critical; warning where it could not be tested, or where it is emulated and was slow once"
_SOURCE = "Source: further rounds of the test against hosts that are proven good."

HOST = MeasuredRule(
    id="fabric-host",
    title="A host is slow, or cannot be tested, on most of its rails",
    severity=_SEVERITY,
    text=f"""
A host is at fault: it is slow with several hosts that are good with others.

Symptom: on more than half of the host's rails, its tests with at least two proven hosts are slow or fail.

Why: something that its devices share: PCIe settings, firmware, ACS and IOMMU, the CPU governor, other jobs.

Not when: only one device is slow: that is fabric-device.

{_SOURCE}
""",
    recommended=advice(
        "compare-host",
        "take it out of the pool and compare it with a good host: PCIe width and speed of its NICs (lspci -vv), "
        "firmware, ACS and IOMMU, CPU governor, other jobs; then its cables and switch port",
    ),
)
DEVICE = MeasuredRule(
    id="fabric-device",
    title="One device of a host is slow, or cannot be tested",
    severity=_SEVERITY,
    text=f"""
One device of a host is at fault, and the host's others are good.

Symptom: the device's tests with at least two proven hosts are slow or fail.

Why: its PCIe slot, firmware, cable, transceiver or switch port.

Not when: most of the host's devices are slow: that is fabric-host.

{_SOURCE}
""",
    recommended=advice(
        "look-at-device",
        "look at this NIC alone: its PCIe slot (lspci -vv: LnkSta), firmware, cable and transceiver, and its switch "
        "port",
    ),
)
LINK = MeasuredRule(
    id="fabric-link",
    title="The path between two hosts is slow",
    severity=_SEVERITY,
    text=f"""
A pair of hosts is slow, and both are good with others.

Symptom: the pair's test is slow again when it is repeated, while both hosts are good with proven ones.

Why: what lies between: routing, a trunk or spine port that the pair's traffic hashes to.

Not when: all pairs between two leaf switches are slow: that is fabric-leaf-link.

{_SOURCE}
""",
    recommended=advice(
        "look-between-hosts",
        "both ends are good with others, so look between them: routing, the trunk or spine port that this pair's "
        "traffic hashes to, and its error counters",
    ),
)
LEAF_LINK = MeasuredRule(
    id="fabric-leaf-link",
    title="All paths between two leaf switches are slow",
    severity=_SEVERITY,
    text=f"""
Every measured pair between two leaf switches is slow, and their hosts are good with others.

Symptom: all measured pairs with one host below each of the two switches are slow.

Why: trunks between the two switches are down, at a lower rate, or have errors.

Not when: the leaf switches of the hosts are not known.

{_SOURCE}
""",
    recommended=advice(
        "look-at-trunks",
        "look at the trunks between these two leaf switches: ports down, at a lower rate, or with errors",
    ),
)
COMMON = MeasuredRule(
    id="fabric-common",
    title="Slow paths have a host in common",
    severity=_SEVERITY,
    text=f"""
A host is good with some hosts, and most of its paths are slow.

Symptom: three or more slow paths, more than half of those measured, begin or end at one host.

Why: what these paths share: the host's switch port, its routes, its NIC.

Not when: it is slow with all of them: that is fabric-host.

{_SOURCE}
""",
    recommended=advice(
        "look-at-shared-path", "look at what these paths share: the host's switch port, its routes, and its NIC"
    ),
)
WHOLE = MeasuredRule(
    id="fabric-fabric",
    title="A whole rail is slow",
    severity=_SEVERITY,
    text=f"""
Most tests of a rail are below what its links carry, or none is good to compare with.

Symptom: the tests of a rail are below the rate of their links as a whole. No host stands out, and none is named.

Why: something that all hosts have in common: rate and MTU of the ports, PCIe settings, flow control.

Not when: some hosts reach the rate: then those that do not are named.

{_SOURCE}
""",
    recommended=advice(
        "check-common-settings",
        "all hosts have it in common: rate and MTU of the ports, PCIe settings, flow control, or a wrong expectation "
        "(fabric_slow_ratio); no host is named",
    ),
)
OPEN = MeasuredRule(
    id="fabric-open",
    title="A pair is slow, and it is open whose fault it is",
    severity=_SEVERITY,
    text=f"""
A pair of hosts is slow, and the rounds did not suffice to tell which of the two, or the path, is at fault.

Symptom: the pair's test is slow, and neither end was proven good or bad.

Why: too few rounds, or too few hosts that are good.

Not when: more rounds can be run: they are, up to --confirm-rounds.

{_SOURCE}
""",
    recommended=advice("measure-again", "measure again with more rounds (--confirm-rounds), or with scope all"),
)
PASSED = MeasuredRule(
    id="fabric-passed",
    title="A pair was slow once",
    severity="warning",
    text=f"""
A pair of hosts was slow or failed once, and good when it was repeated.

Symptom: the repeated test of the pair is good.

Why: other traffic, or a fault that comes and goes.

Not when: it is slow again: that is fabric-link.

{_SOURCE}
""",
    recommended=advice("watch", "it did not show again: watch it; other traffic may have caused it"),
)

RULES = (HOST, DEVICE, LINK, LEAF_LINK, COMMON, WHOLE, OPEN, PASSED)
_BY_ID: Mapping[str, MeasuredRule] = {rule.id: rule for rule in RULES}


def suspect_rule(kind: str) -> MeasuredRule:
    """The rule of a kind of suspect: ``host``, ``leaf-link``. Raises KeyError for a kind that there is not."""
    return _BY_ID[f"fabric-{kind}"]


def recorded_suspect_rule(kind: str) -> MeasuredRule:
    """The same of a document: of a kind that only a later raybench knows it is open whose fault it is."""
    return _BY_ID.get(f"fabric-{kind}", OPEN)
