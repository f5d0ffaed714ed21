"""What a run finds by comparing its nodes, ranks and pairs with their peers."""

from raybench.finding_rules.rule import MeasuredRule, advice

_SEVERITY = "critical; warning where it is moderate, or emulated ranks share processors"
_SOURCE = (
    "Source: raybench's page of methods: shares of the peers' speed by round, their 95 % interval, and an A/A control."
)

SLOW_NODE = MeasuredRule(
    id="slow-node",
    title="A node is slower than its peers",
    severity=_SEVERITY,
    text=f"""
The pairs of one node have less bandwidth than pairs of the same kind elsewhere.

Symptom: in a matrix of pairs, the node's bandwidth beside that of its peers at the same time is below 0.8 (moderate:
0.93) with the whole 95 % interval, in most rounds.

Why: its NICs (PCIe width or speed, firmware, cable, switch port), its BIOS and kernel settings, or other work on it.

Not when: it was slow for a while only; more than a third of the nodes are: then it is how the machine is built.

{_SOURCE}
""",
    recommended=advice(
        "check-slow-node",
        "compare it with a good node: PCIe width and speed of its NICs (lspci -vv), firmware, ACS and IOMMU, CPU "
        "governor, other jobs; then its cables and switch ports",
        "raybench fabric run -i HOSTS",
        "raybench preflight",
    ),
)
SLOW_RANK = MeasuredRule(
    id="slow-rank",
    title="A rank is slower than its peers",
    severity=_SEVERITY,
    text=f"""
One rank takes longer for its own work, or its pairs have less bandwidth, than the other ranks.

Symptom: the rank's time without communication, or the bandwidth of its pairs, beside that of its peers at the same time
is below 0.8 (moderate: 0.93) with the whole 95 % interval, in most rounds.

Why: a GPU that is throttled or shared, a NIC in a slow PCIe slot, another process on its cores. Where its pairs within
the node are as good as others, it is the NIC that it uses.

Not when: its whole node is slow: then the node is named. It was slow for a while only.

{_SOURCE}
""",
    recommended=(
        *advice(
            "check-slow-rank",
            "look at this rank's GPU and NIC: clocks and power (nvidia-smi -q), PCIe slot (lspci -vv: LnkSta), other "
            "processes on its cores",
            "raybench preflight",
        ),
        *advice(
            "check-slow-nic",
            "its pairs within the node are as good as others: look at the NIC that this rank uses, its cable "
            "and its switch port",
        ),
    ),
)
SLOW_WAY = MeasuredRule(
    id="slow-way",
    title="The path between two ranks is slow",
    severity=_SEVERITY,
    text=f"""
A pair of ranks has less bandwidth than pairs of the same kind, and both of its ends are good with others.

Symptom: all blocks of the pair are slower than its peers by more than four deviations, and below 0.8 of them.

Why: what is between the two: routing, a trunk or spine port that this traffic hashes to, or within a node its PCIe or
NVLink path.

Not when: one of the two ranks is slow with others too: then the rank is named.

{_SOURCE}
""",
    recommended=advice(
        "check-slow-way",
        "both ends are good with others, so look between them: routing, the trunk or spine port that this traffic "
        "hashes to, and its error counters; within a node its PCIe or NVLink path (nvidia-smi topo -m)",
    ),
)
SLOW_PAIRS = MeasuredRule(
    id="slow-pairs",
    title="Pairs that share something are slow",
    severity="critical; warning where they are more than a third of their kind",
    text=f"""
Several pairs are slow that no single node, rank or path explains: those of a rail, of a leaf switch, of two nodes.

Symptom: the pairs are below the fastest tenth of pairs that are built alike, in all of their blocks.

Why: a leaf switch, its uplinks, a type of NIC, the cabling of some nodes.

Not when: a network that is oversubscribed by design, or another job on it, slows them: that looks the same, so measure
once more.

{_SOURCE}
""",
    recommended=advice(
        "check-slow-pairs",
        "look at what these pairs share: a rail or leaf switch, its uplinks and their error counters, one type of "
        "NIC, or the cabling of their nodes; a network that is oversubscribed by design, and another job on it, look "
        "the same: measure once more, then test their links alone",
        "raybench fabric run -i HOSTS",
    ),
)

RULES = (SLOW_NODE, SLOW_RANK, SLOW_WAY, SLOW_PAIRS)
