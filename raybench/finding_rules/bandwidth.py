"""What the bandwidth of a run is compared with from outside: published healthy systems, and an earlier run."""

from raybench.finding_rules.rule import MeasuredRule, advice

BELOW_EXPECTED = MeasuredRule(
    id="bandwidth-below-expected",
    title="A collective is slower than on a healthy system of this shape",
    severity="warning",
    text="""
The bus bandwidth of a collective is below what published healthy systems of the same shape reach.

Symptom: at the largest messages the whole 95 % interval is below the limit, a share of the expected bandwidth that
depends on how many independent systems the expectation rests on.

Why: a NIC or a link that is down or at a lower rate, GPUDirect RDMA that is not used, a wrong topology, a congested
network.

Not when: no published system resembles the run's shape: then nothing is expected, and the report says so. Emulated
nodes are never judged.

Source: raybench's page of methods, the corpus of published results and its leave-one-out errors.
""",
    recommended=advice(
        "find-slow-link",
        "measure all pairs to find the slow node or NIC, and read what the NCCL logs prove",
        "raybench run --suite p2p_matrix --p2p-size 64M",
    ),
)
BELOW_BASELINE = MeasuredRule(
    id="bandwidth-below-baseline",
    title="A collective is slower than in an earlier run of this cluster",
    severity="critical",
    text="""
The bus bandwidth of a collective is below that of the run that --baseline names.

Symptom: at the largest messages that both runs have, even the fast end of this run's 95 % interval is below 94 % of the
slow end of the earlier one.

Why: something was lost since: a NIC, a link, GPUDirect RDMA, a version that was faster. A lost NIC of eight costs
12 %; repeats of a healthy cluster differ by up to 3 %.

Not when: the runs differ in shape, or the nodes are emulated: that is baseline-not-comparable.

Source: repeated published measurements on one machine type; raybench's page of methods.
""",
    recommended=advice(
        "compare-with-baseline",
        "compare what the two runs say of versions and variables, then measure all pairs to find the slow node or NIC",
        "raybench run --suite p2p_matrix --p2p-size 64M",
        "raybench preflight",
    ),
)
NOT_COMPARABLE = MeasuredRule(
    id="baseline-not-comparable",
    title="The run cannot be compared with its baseline",
    severity="warning",
    text="""
A comparison was asked for by --baseline, and could not be made.

Symptom: the two runs differ in nodes, ranks, backend or GPUs, have no collective in common at 64 MiB or more, or run on
emulated nodes.

Why: bandwidth depends on nodes, ranks, types and sizes, and that of emulated nodes on whatever else the machine runs.

Not when: the runs differ in versions or variables only: those are compared.

Source: what both results say of their cluster.
""",
    recommended=(
        *advice(
            "compare-with-baseline",
            "take a baseline of this shape and with these messages while it is healthy, and keep its result.json",
            "raybench run --suite collectives",
        ),
        *advice(
            "compare-with-baseline",
            "compare on nodes of their own: name their cluster with --address, and take a baseline there",
            "raybench run --suite collectives",
        ),
    ),
)

RULES = (BELOW_EXPECTED, BELOW_BASELINE, NOT_COMPARABLE)
