"""Which NCCL or RCCL, and which driver.

``NCCL version 2.18.5+cuda12.2`` without a prefix by rank 0 only (to 2.21), with a prefix by every process (2.22.3+ at
INFO). Vendors add to it: ``2.12.6azure3+cuda11.4``. RCCL: ``RCCL version 2.18.3+hip5.7 HEAD:b502725``.
"""

from diagnostics.parsers.base import Pattern

PATTERNS = (
    Pattern(
        kind="version",
        literal="CCL version",
        expression=(
            r"(?<!compiled with )(?P<library>[NR]CCL) version ?:? "
            r"(?P<version>\d+\.\d+(?:\.\d+)?[\w.+\-]*(?: ?HEAD:\w+)?)"
        ),
        samples=("NCCL version 2.12.6azure3+cuda11.4", "RCCL version 2.18.3+hip5.7 HEAD:b502725"),
    ),
    Pattern(
        kind="cuda-driver",
        literal="cudaDriverVersion",
        expression=r"cudaDriverVersion (?P<driver>\d+)",
        samples=("cudaDriverVersion 12040",),
    ),
    Pattern(
        kind="amd",
        literal="ROC",
        expression=r"ROC[rm] version|rocm_smi_lib",
        samples=("ROCr version 1.1",),
    ),
    Pattern(
        kind="version-mismatch",
        literal="ismatch",
        expression=(
            r"Mismatched NCCL version detected : rank (?P<rank>\d+) version (?P<version>\d+) "
            r"rank (?P<other_rank>\d+) version (?P<other_version>\d+)"
            r"|NCCL version mismatch with remote peer (?P<peer>\S+) "
            r"\(local: (?P<local>[^,]+), remote (?P<remote>[^)]+)\)|Mismatched NCCL git versions"
        ),
        samples=(
            "Mismatched NCCL version detected : rank 0 version 22304 rank 8 version 22403",
            "NCCL version mismatch with remote peer 10.0.0.2<4231> (local: 22403, remote 22304)",
        ),
    ),
)
