"""Limits of the session that starts ranks."""

import math

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.system import parse_pairs
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

GIB = 2**30


def memlock(view: HostView) -> Judgement:
    """RDMA registers memory by locking it: below the limit, ``ibv_reg_mr`` and ``ibv_create_cq`` fail."""
    soft = view.value("memlock")[0]
    limit = view.expected.memlock_min_gib
    size = math.inf if soft < 0 else soft
    seen = "unlimited" if soft < 0 else _size(soft)
    expected = f"unlimited, or at least {limit:g} GiB"
    if size >= limit * GIB:
        return passed(seen, expected)
    basis = "Primus fails below 32 GiB, AWS warns below 16 GiB; registering memory for RDMA locks it"
    advice = (
        "'* soft memlock unlimited' and '* hard memlock unlimited' in /etc/security/limits.d, LimitMEMLOCK=infinity in "
        "units, then log in again; or raybench configure --tags memlock"
    )
    if view.has_rdma or view.has_gpu_hardware:
        return failed(seen, expected, basis, advice)
    return warned(f"{seen} (no RDMA device here needs it yet)", expected, basis, advice)


def nofile(view: HostView) -> Judgement:
    """A rank holds sockets to all others, per channel; Ray holds more."""
    soft, hard = view.value("nofile")
    limit = view.expected.nofile_min
    seen = f"{'unlimited' if soft < 0 else soft}, hard {'unlimited' if hard < 0 else hard}"
    if soft < 0 or soft >= limit:
        return passed(seen, f"at least {limit}")
    verdict = failed if soft < 1024 else warned
    advice = (
        f"'* soft nofile {limit}' in /etc/security/limits.d, LimitNOFILE in units; or raybench configure --tags nofile"
    )
    return verdict(seen, f"at least {limit}", "Primus sets 65535; NCCL opens sockets by ranks and channels", advice)


def remove_ipc(view: HostView) -> Judgement:
    """With RemoveIPC, systemd deletes a user's shared memory at log-out, also of jobs that still run."""
    files = {path: value or "" for path, value in view.files("limits", "*/logind.conf*").items()}
    if not files:
        return skipped("no systemd-logind here")
    chosen = ""
    for path in sorted(files, key=lambda name: ("logind.conf.d" in name, name)):
        chosen = parse_pairs(files[path]).get("RemoveIPC", chosen)
    if chosen.lower() in {"no", "false", "off", "0"}:
        return passed("RemoveIPC=no", "no")
    return warned(
        f"RemoveIPC={chosen or 'not set, which is yes'}",
        "no",
        "NCCL's documentation: shared memory vanishes when the user of a job logs out (not for root and system users)",
        "RemoveIPC=no in /etc/systemd/logind.conf.d/raybench.conf, then systemctl restart systemd-logind",
    )


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 1024:.0f} KiB"
