"""What a run finds about its nodes and the files it leaves there, beside the figures."""

from raybench.finding_rules.rule import MeasuredRule, advice

VERSIONS_DIFFER = MeasuredRule(
    id="versions-differ",
    title="Software differs between nodes",
    severity="critical; warning with --allow-mixed",
    text="""
Nodes of the run have different versions of what is measured with.

Symptom: raybench, Python, Ray, PyTorch, NCCL, the driver or the kernel has another version on some nodes, or is missing
there. The finding names the nodes that differ from the most common version.

Why: nodes with different software are not one machine to measure, and NCCL of different versions may hang or fail to
connect.

Not when: only the hardware differs.

Source: what every node and every rank says of itself before anything is timed.
""",
    recommended=advice("equal-versions", "Install the same {software} on all nodes."),
)
DEVICES_MASKED = MeasuredRule(
    id="devices-masked",
    title="Ranks do not see all GPUs of their node",
    severity="critical",
    text="""
The ranks of a node see fewer GPUs than the node has.

Symptom: `torch.cuda.device_count()` in a rank is less than the number of GPUs that the driver lists.

Why: CUDA_VISIBLE_DEVICES hides them, as Ray does for each of its actors. NCCL needs to see its peers' GPUs for NVLink
and shared memory; with masked devices it is reported to be up to 2400 times slower, or to hang.

Not when: the nodes are emulated: each then has a share of one machine's GPUs.

Source: ray#61073; what every rank says of itself before anything is timed.
""",
    recommended=advice(
        "unmask-devices",
        "Start Ray on the node with CUDA_VISIBLE_DEVICES unset, or with all GPUs of the node.",
        "unset CUDA_VISIBLE_DEVICES",
        "ray start --address=HEAD:6379",
    ),
)
TRACE_LEFT_OUT = MeasuredRule(
    id="trace-left-out",
    title="A trace is too long to be kept",
    severity="warning",
    text="""
A profiler's trace of a rank is longer than the limit of a run's logs.

Symptom: a trace that `raybench train --profile` wrote on a node is not in logs/.

Why: traces grow with the number of operations of a step, and what a run brings home is limited (--log-limit). The
figures that are made from the trace are kept.

Not when: the trace could not be written at all.

Source: the size of the file on the node.
""",
    recommended=advice(
        "raise-log-limit",
        "Raise --log-limit above its size, profile a smaller model, or lower --gradient-accumulation-steps.",
        "raybench train --profile --log-limit {mebibytes}M",
    ),
)
LOGS_LOST = MeasuredRule(
    id="logs-lost",
    title="The logs of a node could not be fetched",
    severity="warning",
    text="""
All was measured, but what NCCL said on one node is not in the diagnosis.

Symptom: the node's actor does not answer when the run's logs are brought home, or cannot read them.

Why: the node or its Ray daemon went away after the last measurement, or its disk is full.

Not when: the node was lost before the measurements were complete: that is node-lost.

Source: the answer of the node's actor.
""",
    recommended=advice("look-at-node", "See whether Ray still runs there.", "ray status"),
)

RULES = (VERSIONS_DIFFER, DEVICES_MASKED, TRACE_LEFT_OUT, LOGS_LOST)
