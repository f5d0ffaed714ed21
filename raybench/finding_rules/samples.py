"""What the samples of a run's nodes show beside its points and steps: both are on one clock."""

from raybench.finding_rules.rule import MeasuredRule, advice

_SOURCE = "the samples of the agents in node_samples.json, beside the times of points and steps in result.json"

PORT_ERRORS = MeasuredRule(
    id="port-errors-while-measured",
    title="A port had errors while it was measured",
    severity="warning; critical where what was measured then was slower",
    text=f"""
An error counter of a network port grew during a benchmark.

Symptom: symbol errors, receive errors, link recoveries and the like grew between the readings around a point. Where the
same point was measured without such errors, in another launch or between other nodes, both bandwidths are quoted, and
the finding is critical if this one is slower and the blocks of the two do not overlap.

Why: a bad cable or transceiver, dirt in a connector, a failing switch port. Each bad packet is sent again, and a link
that retrains carries nothing meanwhile.

Not when: counters stood above 0 and did not grow, or grew by fewer than ten bit errors; congestion (discards, waits,
congestion notifications) is not a fault of a port. Where nothing was measured without errors, no bandwidth is compared.

Source: {_SOURCE}.
""",
    recommended=advice(
        "look-at-port",
        "Look at the cable, the transceiver and the switch port of {port} on {node}, clear the counters and run again.",
        "raybench preflight --only rdma",
    ),
)
GPU_THROTTLED = MeasuredRule(
    id="gpu-throttled-while-measured",
    title="A GPU lowered its clocks while it was measured",
    severity="warning",
    text=f"""
A GPU ran at lower clocks during a benchmark or its steps, for its temperature, its power supply or its hardware.

Symptom: the driver reported thermal slowdown, power brake or hardware slowdown in two readings or more within a point.
Of a training the steps of that time are named with their median, beside that of the others.

Why: cooling (fans, dust, inlet temperature, liquid), a power supply or its cable. One slow GPU holds up all ranks.

Not when: only the power cap lowers the clocks: a GPU at full load is held at its limit by design. Not when it was
before or after what was measured.

Source: {_SOURCE}; NVML's clocks event reasons.
""",
    recommended=advice(
        "cool-gpu",
        "Look at temperature, fans and power of GPU {gpu} on {node}.",
        "nvidia-smi -q -d TEMPERATURE,POWER,PERFORMANCE",
    ),
)
GPU_WAITS = MeasuredRule(
    id="gpu-waits-for-data",
    title="GPUs wait for data",
    severity="warning",
    text=f"""
GPUs were busy less than 80 % of a training, and loading data took more than 10 % of its steps.

Symptom: the mean utilisation of the GPUs over the timed steps, and the share of the data phase in the mean step.

Why: too few loader workers, slow storage, decoding on too few processors.

Not when: only one of the two is so: a GPU may wait for the network, and data may be loaded while it computes.

Source: {_SOURCE}; utilisation is the share of time in which a kernel ran (NVML).
""",
    recommended=advice(
        "load-data-faster", "More loader workers and prefetching, local or faster storage, fewer small files."
    ),
)
MEMORY_GROWS = MeasuredRule(
    id="memory-grows-by-step",
    title="Memory grows step by step",
    severity="warning",
    text=f"""
What a rank, a GPU or a node holds in memory grows throughout the timed steps, and will not fit some day.

Symptom: after the first quarter of the steps, the least held in each of eight equal parts grows from part to part: the
95 % interval of that growth is above 0, and all of it is more than 1 % and 64 MiB. A rank itself notes after each of 42
steps or more what its tensors hold on the GPU, or its process on a CPU; the finding then has the growth a step, from
which step on, and for how many more steps what is free lasts. Else the samples of the agent say it.

Why: tensors kept across steps (losses with their graph, lists of outputs), a cache without bound, a loader that leaks.

Not when: it grows at the beginning only, as allocators do, or goes up and down.

Source: {_SOURCE}; Student's t over the differences of neighbouring parts.
""",
    recommended=advice(
        "find-leak",
        "Keep numbers instead of tensors (loss.item()), and look at what each step adds to lists and caches.",
    ),
)
NODE_SWAPS = MeasuredRule(
    id="swapped-while-measured",
    title="A node swapped while it was measured",
    severity="warning",
    text=f"""
A node moved memory to or from its swap space during a benchmark.

Symptom: pages swapped in or out, more than 1 MiB within what was measured. The finding has the bytes.

Why: the node's memory is full: ranks, other jobs, files in a tmpfs.

Not when: swap space is in use and nothing moves, or moved before or after what was measured.

Source: {_SOURCE}; pswpin and pswpout of /proc/vmstat.
""",
    recommended=advice(
        "free-memory", "Free memory on {node}, or ask for less; switch swap off for what is measured.", "swapoff -a"
    ),
)
PROCESSORS_CONTENDED = MeasuredRule(
    id="contended-while-measured",
    title="Other processes took processors from the ranks of a node",
    severity="warning",
    text=f"""
Processes that do not belong to the run used processors of one node during a benchmark, and tasks waited for them.

Symptom: what others used is a processor or more and 10 % of those of the node, twice what it is on the other nodes in
the middle, and some task waited for a processor 10 % of the time (PSI), or 95 % of all were busy where PSI is unknown.

Why: another job on the node, a backup, a monitoring agent, a build.

Not when: all nodes have it alike, or processors were left idle.

Source: {_SOURCE}.
""",
    recommended=advice("end-others", "See what else runs on {node}, and measure on nodes of their own.", "top -b -n 1"),
)
SLOW_TCP_PATHS = MeasuredRule(
    id="slow-tcp-paths",
    title="TCP carries less to and from a node than between the others",
    severity="critical",
    text=f"""
While data was on its way, the TCP paths of one node carried less than half of what those between the other nodes did.

Symptom: bytes that the peer acknowledged, over the time in which data was on its way to it and its window was not full
(`bytes_acked`, `busy` and `rwnd_limited` of `ss -ti`), of the connections that carry bulk data. The fastest path of the
node is below half of the slowest of the others, in more than half of the time. Where one path or one direction of a
ring is slow, the side is not known: both ends are named.

Why: a link that came up at a lower rate, a shaper or a policer, a virtual machine's limit, a bad cable, a switch port
at fault. All other ranks wait for it in every collective, so that no figure of a rank stands out.

Not when: messages are small or wait for a longer way (the least round trips are compared); the node's processes are
slow, which fills its window: a rank of it that is slow by itself, or processors that others take, are named instead;
many nodes send to one at the same time, as in a gather; nodes differ in how many paths they use; more than a third of
the nodes, or several paths, are slow: then it is how the network is built, or another job. RDMA does not pass through
TCP: its ports have counters of their own. Two nodes have no other path to compare with: where TCP carries less than 2 %
of what the rate of their links allows, between two nodes or among more that are all alike, the verdict is unknown.

Source: {_SOURCE}; tcp_info of the Linux kernel (`tcpi_bytes_acked`, `tcpi_busy_time`, `tcpi_rwnd_limited`).
""",
    recommended=advice(
        "check-link-rate",
        "Compare the link of {node} with that of a healthy node: its rate, its qdisc, errors, limits of the instance.",
        "ethtool DEVICE | grep -i speed",
        "tc -s qdisc show; tc -s class show dev DEVICE",
        "raybench fabric run -i HOSTS",
    ),
)
TCP_LOSSES = MeasuredRule(
    id="tcp-losses-while-measured",
    title="TCP lost segments while it was measured",
    severity="warning; critical where they cost bandwidth",
    text=f"""
Of the TCP segments that a node sent during a benchmark, 1 % and fifty or more were lost and sent again.

Symptom: retransmitted segments, without those that the peer had already (DSACK), in a part of the benchmark. It is
critical where TCP carried less than half of what it carried in parts without losses, while it had bulk data on its way;
and where there are no such parts, where in its busiest second the NIC moved less than a quarter of its link's rate
(`/sys/class/net/*/speed`). Where neither is known, what the losses cost is not known, and nor is the run's verdict.

Why: an overloaded link, a shaper or policer, a virtual machine's limit, a bad cable, an MTU that does not fit. TCP
halves its rate at each loss, so that 1 % makes ten times less of a fast link. Of two nodes no path can be compared with
another: then this is what shows that their link is slow.

Named is the node that all of it was on the way to or from; of one path both ends, since which of them is not known.

Not when: a node or path is slow beside the others: the losses are then its evidence; segments are sent again that the
peer had, as on machines whose processors are taken; a shaper delays what it holds back, and loses nothing of it.

Source: {_SOURCE}; RFC 4022 for tcpRetransSegs; Mathis et al. (1997), as `tcp-retransmissions`.
""",
    recommended=advice(
        "find-loss",
        "Look at the links of {node}: rate, queues and their drops, errors, MTU, limits of the instance.",
        "ethtool DEVICE | grep -i speed",
        "tc -s qdisc show; nft list ruleset",
        "ss -tin state established | grep -B1 retrans",
    ),
)

RULES = (
    *(PORT_ERRORS, GPU_THROTTLED, GPU_WAITS, MEMORY_GROWS, NODE_SWAPS, PROCESSORS_CONTENDED),
    *(SLOW_TCP_PATHS, TCP_LOSSES),
)
