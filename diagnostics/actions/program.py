"""What the program and its logs can tell."""

from collections.abc import Mapping, Sequence

from diagnostics.actions.rows import ENV, TORCH, TROUBLE, Row

ACTIONS: Mapping[str, Sequence[Row]] = {
    "find-divergence": [
        {
            "text": "Which rank does something else? Record the collectives and compare the ranks' stacks.",
            "commands": [
                "export TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_NCCL_DESYNC_DEBUG=1",
                "py-spy dump --pid <pid of the missing rank>",
                "torchfrtrace --prefix nccl_trace_rank_ <folder>",
            ],
            "link": TORCH,
        }
    ],
    "look-at-rank": [
        {
            "text": (
                "Read the end of this rank's own output and its host's kernel log first; the other ranks "
                "only wait for it."
            ),
            "commands": ["dmesg -T | tail -50   # out-of-memory killer, Xid, link", "df -h", "nvidia-smi"],
            "link": TROUBLE,
            "never": ["amd"],
        },
        {
            "text": (
                "Read the end of this rank's own output and its host's kernel log first; the other ranks "
                "only wait for it."
            ),
            "commands": ["dmesg -T | tail -50   # out-of-memory killer, amdgpu, link", "df -h", "rocm-smi"],
            "only": ["amd"],
        },
    ],
    "whole-log": [
        {
            "text": "Give the whole output of every rank, one file each.",
            "commands": ["export NCCL_DEBUG_FILE=nccl.%h.%p.log", "raybench diagnose <folder>"],
            "link": ENV + "#nccl-debug-file",
        }
    ],
    "check-slow-gpu": [
        {
            "text": "Compare clocks, temperature, power limit and other processes of this node with another's.",
            "commands": ["nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE,POWER"],
            "never": ["amd"],
        },
        {
            "text": "Compare clocks, temperature, power limit and other processes of this node with another's.",
            "commands": ["rocm-smi --showclocks --showtemp --showpower --showpids"],
            "only": ["amd"],
        },
    ],
    "reduce-sync-overhead": [
        {
            "text": (
                "Check that the network is the one that was paid for, then raise --batch-size or "
                "--gradient-accumulation-steps."
            ),
            "commands": ["raybench run --suite all_reduce"],
        }
    ],
}
