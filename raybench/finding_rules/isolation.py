"""What --isolate and --continue-without find: suspects proven or withdrawn, and nodes that were dropped."""

from raybench.finding_rules.rule import MeasuredRule, advice

_SOURCE = (
    "Source: raybench's page of methods, the suspect measured again: the limits are those of the finding that accuses."
)

CONFIRMED = MeasuredRule(
    id="suspect-confirmed",
    title="A node is at fault, measured again with healthy partners",
    severity="critical",
    text=f"""
A node that the run accused is slow, or breaks the run, again: the node is at fault, or the link that only it has.

Symptom: with `--isolate`, the node is slow with each of its healthy partners, two at least, while these are well among
themselves, and well with another node in its place.

Why: what is in the node, or between it and its switch: NIC, cable, port, GPU, processors, other work on it.

Not when: only some of its pairs are slow (suspect-path); too few nodes are healthy, or the figures vary too much to
tell (suspect-undecided).

{_SOURCE}
""",
    recommended=advice(
        "replace-node",
        "Take the node out of the cluster, or measure without it, and compare it with a good node.",
        "raybench run --continue-without",
        "raybench preflight",
    ),
)
NOT_CONFIRMED = MeasuredRule(
    id="suspect-not-confirmed",
    title="A node that was accused is not slow any more",
    severity="warning",
    text=f"""
A node, or a path, that the run accused was not slow when it was measured again. The run's own figures stay affected.

Symptom: with `--isolate`, it is as fast with its healthy partners as these are among themselves.

Why: trouble that has gone: other work on the node or the network, a link that recovered, a process that was stopped.

Not when: all partners are slower than in the run: that withdraws nothing (suspect-undecided).

{_SOURCE}
""",
    recommended=advice(
        "measure-again", "Run again; where it comes back, look at what else the node or the network does at that time."
    ),
)
PATH = MeasuredRule(
    id="suspect-path",
    title="The path between two nodes is slow, and neither of them",
    severity="critical",
    text=f"""
Measured again, a pair of nodes is slow, and both of its ends are well with other nodes. No node is dropped for it.

Symptom: with `--isolate`, some pairs of a suspect are slow, and both ends of these have pairs that are well.

Why: what is between the two: routing, a trunk or spine port that this traffic hashes to, a cable between switches.

Not when: the suspect is slow with each of its partners: then it is the node (suspect-confirmed).

{_SOURCE}
""",
    recommended=advice(
        "look-between",
        "Look between the two nodes: routing, the trunk or spine port, its error counters and cables.",
        "raybench fabric run -i HOSTS",
    ),
)
UNDECIDED = MeasuredRule(
    id="suspect-undecided",
    title="It is open whether an accused node is at fault",
    severity="warning",
    text=f"""
A node, or a path, that the run accused could not be proven to be at fault, nor to be well. The finding that accuses it
stands.

Symptom: with `--isolate`, fewer than two other nodes are healthy, so that nobody can tell which side of a pair is slow;
or figures vary too much, or a measurement broke, or the time for it was over. The finding says which.

Why: two nodes have no majority; several nodes are bad; other work disturbs the measurement.

Not when: the figures tell: suspect-confirmed, suspect-not-confirmed, suspect-path.

{_SOURCE}
""",
    recommended=advice(
        "more-nodes", "Measure with more nodes, or again when nothing else runs on them.", "raybench run --isolate"
    ),
)
NODE_DROPPED = MeasuredRule(
    id="node-dropped",
    title="The run went on without a node",
    severity="critical",
    text="""
The figures are those of fewer nodes than the run began with: a node at fault was dropped.

Symptom: with `--continue-without`, a node was lost, or proven to be at fault, and the run was begun again without it.

Why: as the finding of the first run says (rule suspect-confirmed or node-lost).

Not when: fewer nodes than --min-nodes would be left: then no node is dropped.

Source: the first run, whose folder is named.
""",
    recommended=advice(
        "repair-node",
        "Repair the node, then run again with all nodes. Do not compare these figures with those of {before} nodes.",
        "raybench run",
    ),
)

RULES = (CONFIRMED, NOT_CONFIRMED, PATH, UNDECIDED, NODE_DROPPED)
