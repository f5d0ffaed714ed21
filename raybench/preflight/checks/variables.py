"""Variables that a host's own files set for every NCCL there: those that leave out a network which the host has."""

from raybench.preflight.host_view import HostView
from raybench.preflight.verdict import Judgement, passed, warned

NOT_SET = "not set"
_OFF = ("0", "n", "no", "f", "false", "")
# What NCCL's documentation calls a means to find faults, or to go without: no production setting.
_FALLBACKS = {
    "NCCL_P2P_DISABLE": "GPUs of a host pass their data through its memory",
    "NCCL_SHM_DISABLE": "GPUs of a host pass their data through its network",
    "NCCL_NVLS_ENABLE": "NVLink SHARP is not used",
}


def effective(view: HostView) -> dict[str, tuple[str, str]]:
    """Each variable's value and the file that sets it; of several the one that wins. Raises UnavailableError."""
    found: dict[str, tuple[str, str]] = {}
    for name, value, path in view.value("variables"):
        found.setdefault(name, (value, path))
    return found


def variables(view: HostView) -> Judgement:
    """NCCL without InfiniBand where there is some, over a way that only a search for faults wants."""
    found = effective(view)
    expected = "nothing that leaves out a network or a way between GPUs"
    reasons = dict(_reasons(view, {name: value for name, (value, _) in found.items()}))
    if not reasons:
        told = ", ".join(f"{name}={value} ({path})" for name, (value, path) in sorted(found.items()))
        return passed(told or "no file sets a variable of NCCL", expected)
    seen = "; ".join(f"{name}={found[name][0]} in {found[name][1]}: {why}" for name, why in sorted(reasons.items()))
    files = sorted({found[name][1] for name in reasons})
    return warned(seen, expected, "NCCL's documentation of these variables", f"take them out of {', '.join(files)}")


def _reasons(view: HostView, values: dict[str, str]) -> list[tuple[str, str]]:
    found = []
    for name, why in _FALLBACKS.items():
        value = values.get(name)
        if value is not None and (value.lower() in _OFF) == name.endswith("ENABLE"):
            found.append((name, why))
    if view.has_rdma and values.get("NCCL_IB_DISABLE", "0").lower() not in _OFF:
        found.append(("NCCL_IB_DISABLE", "NCCL leaves out the RDMA devices of this host and takes TCP"))
    if view.has_rdma and values.get("NCCL_NET", "").lower() == "socket":
        found.append(("NCCL_NET", "NCCL leaves out the RDMA devices of this host and takes TCP"))
    return found
