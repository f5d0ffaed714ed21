"""How frameworks say that ranks wait for each other or do different things: PyTorch, Horovod, vLLM.

Lines without NCCL's own mark, beside those of PyTorch's watchdog in its own module.
"""

from diagnostics.parsers.base import Pattern
from diagnostics.parsers.programs.rows import rows

_STALLED = (
    (
        "abort timed out after",
        r"Future for ProcessGroup abort timed out after.*",
        "[PG 0 Rank 0] Future for ProcessGroup abort timed out after 600000 ms",
    ),
    (
        "self.watchdog_timeout",
        r"Watchdog timeout \(self\.watchdog_timeout=.*",
        "[2025-03-03 10:10:10 TP0] Watchdog timeout (self.watchdog_timeout=300)",
    ),
    (
        "DetokenizerManager watchdog",
        r"DetokenizerManager watchdog timeout.*",
        "[2025-05-01 10:00:00] Scheduler or DetokenizerManager watchdog timeout",
    ),
    (
        "RPC call to ",
        r"RPC call to \w+ timed out.*",
        "(EngineCore_0 pid=200) ERROR 09-09 10:15:10 [core.py:700] TimeoutError: RPC call to sample_tokens timed out.",
    ),
)
_APART = (
    (
        "timed out in monitoredBarrier",
        r"(?P<text>Rank \d+ timed out in monitoredBarrier.*)",
        "RuntimeError: Rank 0 timed out in monitoredBarrier after 10000 ms.",
    ),
    (
        "by subset of ranks",
        r"(?P<text>tensors were submitted to be reduced, gathered or broadcasted by subset of ranks.*)",
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting",
    ),
    (
        "successfully reached monitoredBarrier",
        r"(?P<text>reached monitoredBarrier, but received errors .* from rank (?P<ranks>\d+).*)",
        "Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.",
    ),
)
_UNLIKE = (
    (
        "Mismatched ",
        r"(?P<text>Mismatched [\w /]+: One rank .*)",
        "Mismatched allreduce tensor shapes: One rank sent a tensor of shape [4096, 10], but another rank sent [8]",
    ),
)

PATTERNS = (
    *rows("watchdog-stuck", _STALLED, names_text=True),
    *rows("desync", _APART),
    *rows("collective-mismatch", _UNLIKE),
    Pattern(
        kind="collective-mismatch",
        literal="mismatch between collectives",
        expression=r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d+)",
        samples=("RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: X",),
    ),
    Pattern(  # PyTorch's analyser of flight records, torchfrtrace
        kind="collective-mismatch",
        literal="_MISMATCH",
        expression=r"[Cc]ulprit ranks? (?P<rank>\d+);.*?Error type: (?:SIZE_OR_SYNTAX|COLLECTIVE_D?TYPE)_MISMATCH",
        samples=(
            "error msg: Culprit rank 22; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[8]]'",
            "Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: 'all_reduce' does not",
        ),
    ),
    Pattern(
        kind="desync",
        literal="Not all ranks joining collective",
        expression=r"(?P<text>Not all ranks joining collective.*)",
        samples=("Not all ranks joining collective 39 at entry 38, missing ranks {3}",),
    ),
    Pattern(
        kind="watchdog-stuck",
        literal="Received a dump signal",
        expression=r"(?P<text>Received a dump signal due to a collective timeout.*)",
        samples=("[Rank 3] Received a dump signal due to a collective timeout from rank 1 and we will try our best",),
    ),
    Pattern(
        kind="timeout-signal",
        literal="Timeout at ",
        expression=(
            r"Rank (?P<late>\d+)\] Timeout at NCCL work: \d+"
            r"|\[(?P<waits>\d+)\] Timeout at collective: (?P<operation>\w+), #(?P<sequence>\d+)"
        ),
        samples=(
            "[PG 1 Rank 11] Timeout at NCCL work: 15734, last enqueued NCCL work: 15735, last completed NCCL",
            "- [2] Timeout at collective: ALLREDUCE, #730",
        ),
    ),
    Pattern(  # cut by a terminal or a pager before it names the operation
        kind="timeout-signal",
        literal="Watchdog caught ",
        expression=(
            r"(?:Rank (?P<late>\d+)\] )?Watchdog caught (?!collective operation timeout: WorkNCCL\([^)]*OpType=\w)"
        ),
        samples=(
            "[Rank 3] NCCL watchdog thread terminated with exception: [Rank 3] Watchdog caught collective oper",
            "[Rank 6] Process group watchdog thread terminated with exception: [Rank 6] Watchdog caught co",
        ),
    ),
    Pattern(  # of the stack that PyTorch prints with it
        kind="timeout-signal",
        literal="WorkNCCL::checkTimeout",
        expression=r"frame #\d+: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout",
        samples=("frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<long>) + 0x1d2 (0x7f in x)",),
    ),
    Pattern(
        kind="ranks-at",
        literal="] started ",
        expression=r"^\W*\[(?P<ranks>[\d, ]+)\] started [A-Z_]+\b",
        samples=("     [0, 1, 2, 3] started ALLREDUCE",),
    ),
    Pattern(  # Horovod's check for stalled tensors, which speaks after a minute
        kind="desync",
        literal="missing ranks: ",
        expression=r"(?P<text>\S+ \[missing ranks: ?(?P<ranks>[\d, ]+)\])",
        samples=("horovod/common/operations.cc:588] HorovodBroadcast_dense_1_bias_Momentum_0 [missing ranks: 1]",),
    ),
    Pattern(
        kind="timeout-signal",
        literal="due to a collective timeout from",
        expression=r"due to a collective timeout from +(?:this local rank|rank (?P<late>\d+))",
        samples=("[Rank 3] Received a dump signal due to a collective timeout from  rank 1 and we will try our best",),
    ),
    Pattern(
        kind="watchdog-stuck",
        literal="after attempting to dump",
        expression=r"(?P<text>Terminating the process after attempting to dump debug info.*)",
        samples=(
            "Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
        ),
    ),
)
