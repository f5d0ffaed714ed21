"""NVLink domains of several hosts (NVL72 and its like): hosts that stand outside of the one that the others share."""

from collections import Counter
from collections.abc import Mapping

from raybench.documents.preflight import CheckResult
from raybench.preflight.host_view import HostView, UnavailableError

CHECK = "drift-domain"
_NO_CLUSTER = "00000000-0000-0000-0000-000000000000"
_SHARED_BY = 2  # hosts at least that make a domain: a cluster may have many, of one rack each
_ADVICE = (
    "nvidia-smi -q, Fabric, on this host and on one beside it; nvlsm and the partitions of the NVLink switches decide; "
    "reset the GPUs after a change of partitions"
)
_BASIS = "ClusterUUID and CliqueId of nvidia-smi -q: NVLink reaches GPUs of the same two alone"


def domain_results(hosts: Mapping[str, HostView]) -> dict[str, CheckResult]:
    """A result a host: whether its GPUs are in one NVLink domain with those of other hosts, where there are such."""
    domains = {host: _domains(view) for host, view in hosts.items()}
    shared = Counter(domain for found in domains.values() for domain in found if domain is not None)
    wide = {domain for domain, count in shared.items() if count >= _SHARED_BY}
    return {host: _result(domains[host], wide) for host in hosts}


def _domains(view: HostView) -> frozenset[str | None]:
    """Domains of a host's GPUs; None stands for a GPU in a fabric that reaches no other host."""
    try:
        gpus = view.smi.gpus if view.has_gpu_hardware and not view.has_only_amd_gpus else ()
    except UnavailableError:
        gpus = ()
    return frozenset(_domain(gpu.get("Fabric", "ClusterUUID"), gpu.get("Fabric", "CliqueId")) for gpu in gpus)


def _domain(cluster: str | None, clique: str | None) -> str | None:
    return None if cluster in {None, "", _NO_CLUSTER} else f"{cluster}, clique {clique}"


def _result(own: frozenset[str | None], wide: set[str]) -> CheckResult:
    if not own or not wide:
        why = "no NVLink domain of several hosts here" if not wide else "no NVIDIA GPU here"
        return CheckResult(check=CHECK, verdict="skipped", seen=why)
    expected = "one of " + "; ".join(sorted(wide)[:4]) if len(wide) > 1 else next(iter(wide))
    outside = own - wide
    seen = "; ".join(sorted(domain or "no domain beyond the host" for domain in own))
    if not outside:
        return CheckResult(check=CHECK, verdict="pass", seen=seen, expected=expected, basis=_BASIS)
    return CheckResult(check=CHECK, verdict="fail", seen=seen, expected=expected, basis=_BASIS, advice=_ADVICE)
