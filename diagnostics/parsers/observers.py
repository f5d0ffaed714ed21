"""What watches a job beside its log, or printed into it: ``ncclras`` (2.24 and newer) and NCCL Inspector.

``ncclras`` prints a table of communicators, then errors and warnings, each with the ranks that stand out::

    #0-0 (5c5ff4ac0d7f5b43) MISMATCH
      Rank 3 has launched up to operation 6649 -- GPU 3 managed by process 1232 on node 172.16.64.210

``ncclras -f json`` (2.28.7 and newer) gives an object a rank, NCCL Inspector (2.28 and newer, RCCL as well) one a
collective and rank. ``json_objects`` puts each of them on a line.
"""

from diagnostics.parsers.base import CARRIED, Pattern

_RANK = (
    r'"rank": ?(?P<rank>\d{1,9}), ?"host": ?"(?P<node>[^"]{0,255})", ?"pid": ?(?P<process>\d{1,10}), ?'
    r'"cuda_dev": ?(?P<gpu>-?\d{1,4}), ?"nvml_dev": ?-?\d{1,4}, ?"status": ?\{ ?'
)
_WHERE = r"GPU (?P<gpu>\S{1,20}) managed by process (?P<process>\d{1,10}) on node (?P<node>\S{1,255})"
_ROW = CARRIED + r"\s*\d{1,6}(?:\s{1,20}\d{1,7}(?:-\d{1,7})?){5}\s{1,20}[A-Z]{3,20}\s{1,20}"  # of groups: ranks, status
_GROUP = "    0         1         4         8        32        32   RUNNING  "

PATTERNS = (
    Pattern(
        kind="ras-state",
        literal="#",
        expression=CARRIED + r"\s*#\d+-\d+ \((?P<comm>[0-9a-f]{16})\) (?P<state>MISMATCH|INCOMPLETE|ERROR)\s*$",
        samples=("#0-0 (5c5ff4ac0d7f5b43) MISMATCH", "#1-0 (00e5d6a0cb15cd3b) INCOMPLETE"),
    ),
    *(
        Pattern(
            kind="ras-state",
            literal=f" {state}",
            expression=f"{_ROW}(?P<state>{state})\\s*$",
            samples=(_GROUP + state,),
        )
        for state in ("MISMATCH", "INCOMPLETE")
    ),
    Pattern(
        kind="ras-rank",
        literal=" managed by process ",
        expression=(
            CARRIED + r"\s*Rank (?P<rank>\d{1,9}) (?:has launched up to operation (?P<operation>\d{1,18})|"
            r"(?P<none>has not launched any operations)|has status (?P<status>[A-Z]+)|"
            rf"reported (?P<error>.{{1,200}}?))? ?-- {_WHERE}"
        ),
        samples=(
            "  Rank 3 has launched up to operation 6649 -- GPU 3 managed by process 1232 on node 172.16.64.210",
            "  Rank 5 has not launched any operations -- GPU 5 managed by process 1234 on node 172.16.64.210",
            "  Rank 1 has status INIT -- GPU 1 managed by process 71 on node 10.0.0.2",
            "  Rank 7 reported Internal error -- GPU 7 managed by process 9 on node gpu-7",
            "  Rank 2 -- GPU 2 managed by process 77 on node 172.16.64.211",
        ),
    ),
    Pattern(
        kind="ras-process",
        literal=" managing GPU",
        expression=(
            CARRIED + r"\s*Process (?P<process>\d{1,10}) on node (?P<node>\S{1,255}) managing GPUs? (?P<gpu>\S{1,80})"
        ),
        samples=("  Process 3487984 on node 172.16.64.213 managing GPU 5",),
    ),
    Pattern(
        kind="ras-dead",
        literal="considered dead",
        expression=(
            CARRIED
            + r"\s*(?P<count>\d{1,9}) job process(?:es are| is) considered dead \(unreachable via the RAS network\)"
        ),
        samples=("  1 job process is considered dead (unreachable via the RAS network)",),
    ),
    Pattern(
        kind="ras-missing",
        literal="Missing communicator data",
        expression=CARRIED + r"\s*Missing communicator data from (?P<count>\d{1,9}) (?:job process(?:es)?|ranks?)\s*$",
        samples=("  Missing communicator data from 1 job process", "  Missing communicator data from 2 ranks"),
    ),
    Pattern(
        kind="ras-communicator",
        literal='"secondary_hash"',
        expression=r'"secondary_hash": ?"(?P<comm>0x[0-9a-f]{1,16}:0x[0-9a-f]{1,16})"',
        samples=('      "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",',),
    ),
    Pattern(
        kind="ras-member",
        literal='"async_error"',
        expression=(
            rf'{_RANK}"init_state": ?(?P<init>-?\d{{1,4}}), ?"async_error": ?(?P<error>-?\d{{1,4}}),'
            r'.{0,300}?"collective_counts": ?\{(?P<counts>[^{}]{1,1000})\}'
        ),
        samples=(
            (
                '{ "rank": 0, "host": "172.16.64.245", "pid": 1524344, "cuda_dev": 0, "nvml_dev": 0, "status": { '
                '"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": '
                'false }, "collective_counts": { "Broadcast": 0, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, '
                '"AllReduce": 7 } }'
            ),
        ),
    ),
    Pattern(
        kind="ras-failed",
        literal='"async_error"',
        expression=(
            rf'{_RANK}(?:"init_state": ?(?P<init>(?!0\b|7\b)-?\d{{1,4}})|"init_state": ?[07], ?'
            r'"async_error": ?(?P<error>(?!0\b|7\b)-?\d{1,4}))'
        ),
        samples=(
            (
                '{"rank":3,"host":"10.0.0.2","pid":71,"cuda_dev":3,"nvml_dev":3,"status":{"init_state":0,'
                '"async_error":6,"finalize_called":false,"destroy_flag":false,"abort_flag":true},"collective_counts":'
                '{"Broadcast":0,"AllReduce":812}}'
            ),
        ),
    ),
    Pattern(
        kind="ras-absent",
        literal='"considered_dead"',
        expression=(
            rf'{_RANK}(?=[^{{}}]{{0,80}}true)"unresponsive": ?(?:true|false), ?"considered_dead": ?(?P<dead>true|false)'
        ),
        samples=(
            (
                '{ "rank": 1, "host": "172.16.64.245", "pid": 1524345, "cuda_dev": 1, "nvml_dev": 1, "status": { '
                '"unresponsive": true, "considered_dead": false } }'
            ),
        ),
    ),
    Pattern(
        kind="ras-lost",
        literal="PEER_DEAD",
        expression=(
            r'PEER_DEAD(?:: Process (?P<process>\d{1,10}) on node (?P<node>[^\s"]{1,255}) managing|", ?"peer": ?\{ ?'
            r'"host": ?"(?P<host>[^"]{1,255})", ?"pid": ?(?P<pid>\d{1,10}))'
        ),
        samples=(
            "[2025-12-19 13:07:07] PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1",
            (
                '{ "timestamp": "2025-12-19 13:07:07", "group": "LIFECYCLE", "event": "PEER_DEAD", "peer": { "host": '
                '"172.16.64.245", "pid": 1524345, "cuda_devs": [1], "nvml_devs": [1] }, "details": "" }'
            ),
        ),
    ),
    Pattern(  # NCCL_INSPECTOR_ENABLE_P2P=1
        kind="inspector-p2p",
        literal='"p2p_busbw_gbs"',
        expression=(
            r'"id": ?"(?P<comm>0x[0-9a-f]{1,32})", ?(?:"comm_name": ?"[^"]{0,200}", ?)?"rank": ?(?P<rank>\d{1,9}), ?'
            r'"n_ranks": ?(?P<nranks>\d{1,9})'
            r'.{0,2000}?"p2p": ?"(?P<operation>\w{1,40})", ?"p2p_sn": ?(?P<sequence>\d{1,18}), ?'
            r'"p2p_peer": ?(?P<peer>\d{1,9}), ?"p2p_msg_size_bytes": ?(?P<size>\d{1,18}), ?'
            r'"p2p_exec_time_us": ?(?P<microseconds>\d{1,18}).{0,400}?'
            r'"p2p_busbw_gbs": ?(?P<busbw>\d{1,9}(?:\.\d{1,9})?)'
        ),
        samples=(
            (
                '{"header":{"id":"0x7f8c496ae9f661","comm_name":"PP 0","rank":2,"n_ranks":4,"nnodes":2},"metadata":{'
                '"inspector_output_format_version":"v5.1"},"p2p_perf":{"p2p":"Send","p2p_sn":12,"p2p_peer":3,'
                '"p2p_msg_size_bytes":536870912,"p2p_exec_time_us":1154,"p2p_timing_source":"kernel_gpu",'
                '"p2p_algobw_gbs":464.9,"p2p_busbw_gbs":464.9}}'
            ),
        ),
    ),
    Pattern(
        kind="inspector",
        literal='"coll_busbw_gbs"',
        expression=(
            r'^[^{]{0,200}\{ ?(?:.{0,200}?"id": ?"(?P<comm>0x[0-9a-f]{1,32})", ?(?:"comm_name": ?"[^"]{0,200}", ?)?'
            r'"rank": ?(?P<rank>\d{1,9}), ?"n_ranks": ?(?P<nranks>\d{1,9}))?'  # the header may be taken off
            r'.{0,2000}?"coll": ?"(?P<operation>\w{1,40})", ?"coll_sn": ?(?P<sequence>\d{1,18}), ?'
            r'"coll_msg_size_bytes": ?(?P<size>\d{1,18}), ?"coll_exec_time_us": ?(?P<microseconds>\d{1,18}).{0,400}?'
            r'"coll_busbw_gbs": ?(?P<busbw>\d{1,9}(?:\.\d{1,9})?)'
        ),
        samples=(
            (
                '{"header":{"id":"0x7f8c496ae9f661","rank":2,"n_ranks":8,"nnodes":1},"metadata":{'
                '"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"profiler_plugin",'
                '"dump_timestamp_us":1748030377748202,"hostname":"node-1","pid":1639453},"coll_perf":{"coll":"AllReduce",'
                '"coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974,'
                '"coll_algobw_gbs":277.210914,"coll_busbw_gbs":485.119099}}'
            ),
            (
                '{ "header": { "id": "0x7f8c496ae9f661", "comm_name": "DP Group 0", "rank": 2, "n_ranks": 8, "nnodes": '
                '1 }, "metadata": { "inspector_output_format_version": "v4.0" }, "coll_perf": { "coll": "AllReduce", '
                '"coll_sn": 1407, "coll_msg_size_bytes": 17179869184, "coll_exec_time_us": 61974, '
                '"coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 277.2, "coll_busbw_gbs": 485.1 } }'
            ),
        ),
    ),
)
