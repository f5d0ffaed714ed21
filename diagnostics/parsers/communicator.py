"""The life of a communicator: start, completion, node count, destruction.

``ncclCommInitRankConfig comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 8000 commId 0xab - Init START``
(2.18.3+); ``comm 0x7f rank 0 nranks 2 cudaDev 0 busId 35000 - Init COMPLETE`` (2.5 to 2.15, no id). The commId is
equal on all ranks of one communicator. Split communicators print ``parent 0x.. color c key k- Init START`` without an
id up to 2.30.
"""

from diagnostics.parsers.base import Pattern

_INIT = (
    r"comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) nranks (?P<nranks>\d+)"
    r"(?: cudaDev (?P<cuda>-?\d+))?(?: nvmlDev (?P<nvml>-?\d+))?(?: busId (?P<bus>[0-9a-f]+))?"
)
_ID = r"(?:.*?commId (?P<comm_id>0x[0-9a-f]+))?"

PATTERNS = (
    Pattern(  # up to 2.4, before the rings; of later releases, a line of a start that is cut behind the number
        kind="rank-named",
        literal="nranks ",
        expression=(
            r"^(?:(?P<call>ncclComm\w{1,40} )?comm 0x[0-9a-f]+ )?rank (?P<rank>\d{1,6}) nranks (?P<nranks>\d{1,6})"
            r"(?: cudaDev (?!.* - (?:Init|Destroy|Abort) )|(?(call)(?!)|$))"
        ),
        samples=(
            "rank 0 nranks 4",
            "comm 0x7f9d38072350 rank 1 nranks 2",
            "comm 0x7f616c001d30 rank 3 nranks 8 cudaDev 3 nvmlDev 7",
            "ncclCommInitRank comm 0x563a62844c90 rank 0 nranks 2 cudaDev 0 nvmlD",
        ),
    ),
    Pattern(  # 2.22 and newer
        kind="rank-named",
        literal="Init timings",
        expression=r"^Init timings(?: - \w{1,60})?: rank (?P<rank>\d{1,6}) nranks (?P<nranks>\d{1,6}) total ",
        samples=(
            "Init timings - ncclCommInitRank: rank 0 nranks 16 total 3.08 (kernels 0.36, alloc 0.89, bootstrap 0.09)",
            "Init timings: rank 3 nranks 8 total 1.20 (kernels 0.36, bootstrap 0.09)",
        ),
    ),
    Pattern(  # of the first ring, which has every rank once
        kind="ring",
        literal="Channel 00",
        expression=r"^Channel 00(?:/\d+)? : +(?P<ranks>\d+(?: +\d+)*)\s*$",
        samples=("Channel 00/02 :    0   1   2   3", "Channel 00 :    0   1"),
    ),
    Pattern(
        kind="init-start",
        literal="Init START",
        expression=_INIT + _ID + r".*?- Init START",
        samples=(
            (
                "ncclCommInitRank comm 0x5626a6a1a1a0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 8000 "
                "commId 0xe4b8e65544d3f326 - Init START"
            ),
            (
                "ncclCommSplit comm 0x55 rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 9000 parent 0x54 color 0 key "
                "1- Init START"
            ),
        ),
    ),
    Pattern(
        kind="init-complete",
        literal="Init COMPLETE",
        expression=_INIT + _ID + r".*?- Init COMPLETE",
        samples=(
            "comm 0x7f9c0c000f60 rank 1 nranks 2 cudaDev 0 busId f5000 - Init COMPLETE",
            (
                "ncclCommInitRank comm 0xe1 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 65000 commId 0xbf localSize "
                "1 used 2 bytes "
                "on core 3 - Init COMPLETE"
            ),
        ),
    ),
    Pattern(
        kind="comm-nodes",
        literal="nNodes",
        expression=(
            r"comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) nRanks (?P<nranks>\d+) nNodes (?P<nodes>\d+) "
            r"localRanks (?P<local_ranks>\d+)"
        ),
        samples=("comm 0x5588c7079580 rank 1 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",),
    ),
    Pattern(
        kind="destroy",
        literal="Destroy COMPLETE",
        expression=(
            r"comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) (?:nranks (?P<nranks>\d{1,6}) )?.*Destroy COMPLETE"
        ),
        samples=("comm 0x5967f7993f30 rank 0 nranks 1 cudaDev 0 busId 2000 - Destroy COMPLETE",),
    ),
    Pattern(
        kind="abort",
        literal="Abort COMPLETE",
        expression=(r"comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) (?:nranks (?P<nranks>\d{1,6}) )?.*Abort COMPLETE"),
        samples=("comm 0x5967f7993f30 rank 0 nranks 8 cudaDev 0 busId 2000 - Abort COMPLETE",),
    ),
    Pattern(
        kind="duplicate-gpu",
        literal="uplicate",
        expression=(
            r"Duplicate (?:GPU|virtualId) detected : rank (?P<rank>\S+) and rank (?P<other_rank>\S+) both on "
            r"(?:CUDA device|\w+ device|\w+) (?P<bus>\S+)"
        ),
        samples=("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",),
    ),
    Pattern(
        kind="duplicate-gpu",
        literal="ultiple",
        expression=r"Multiple (?:ranks detected using|Ranks are using) the same GPU",
        samples=(
            (
                "Multiple ranks detected using the same GPU on this node. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to "
                "enable this "
                "configuration."
            ),
            "Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1",
        ),
    ),
    Pattern(
        kind="collective",
        literal="opCount",
        expression=(
            r"(?P<operation>[A-Z]\w+): opCount (?P<number>[0-9a-f]+) .*?count (?P<count>\d+) datatype "
            r"(?P<datatype>\d+) "
            r"op (?P<op>\d+) root (?P<root>-?\d+) comm (?P<comm>0x[0-9a-f]+)"
        ),
        samples=(
            (
                "AllReduce: opCount 1f sendbuff 0x7f recvbuff 0x7f count 1024 datatype 7 op 0 root 0 comm "
                "0x55 [nranks=2] "
                "stream 0x66"
            ),
        ),
    ),
    Pattern(
        kind="collective-mismatch",
        literal="ismatch",
        expression=(
            r"Mismatched collective detected.*rank (?P<rank>\d+)|caused by a collective mismatch around rank "
            r"(?P<near>\d+)"
            r"|collective mismatch error,? local size (?P<local>\d+) remote(?: size)? (?P<remote>\d+)"
        ),
        samples=(
            (
                "Mismatched collective detected, please check your collective calls at and around rank 3. You can use "
                "NCCL_DEBUG=INFO"
            ),
            "NET/IB : [req 0/4 tag 1] peer 10.0.0.2<4312> collective mismatch error, local size 4096 remote size 8192",
            "NET/IB : collective mismatch error local size 131072 remote 0 addr 7f083e630000 rkey 83000 seq 2/2",
        ),
    ),
    Pattern(
        kind="message-truncated",
        literal="runcated : receiv",
        expression=(
            r"(?P<what>NET/Socket : (?:peer (?:(?P<peer>\S+) )?)?message truncated : receiving|Message truncated : "
            r"received) (?P<received>\S+) bytes instead of (?P<expected>[\w,]+)"
        ),
        samples=(
            "Message truncated : received 1024 bytes instead of 256",
            "Message truncated : received 8,1024 bytes instead of 8,256",
            "NET/Socket : message truncated : receiving 696320 bytes instead of 32768",
            (
                "NET/Socket : peer 10.0.0.2<4231> message truncated : receiving 1048576 bytes instead of 65536. "
                "If you believe"
            ),
        ),
    ),
    Pattern(
        kind="async-error",
        literal="ncclCommSetAsyncError",
        expression=r"error comm (?P<comm>0x[0-9a-f]+) sets state (?P<state>\d+)",
        samples=("ncclCommSetAsyncError: error comm 0x55 sets state 6",),
    ),
)
