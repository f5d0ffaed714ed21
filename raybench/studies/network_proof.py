"""Whether a run used the network that its label says: proved, refuted, or unproven. Pure.

A setting is a wish. NCCL's log names the network it took and whether GPUDirect RDMA was on; byte counters tell which
interface carried the data, whatever the library. A figure whose label is refuted is no figure of that network at all.
"""

from collections.abc import Iterable, Mapping, Sequence

from diagnostics.limits import LOOPBACK
from diagnostics.transport import TCP_NETWORKS
from raybench.documents.run.cluster import TCP_BACKENDS
from raybench.documents.study.network import Proof, ProofVerdict
from raybench.documents.study.plan import Expectation, NetworkKind
from raybench.documents.study.trial import TrialResult

CARRIED_SHARE = 0.9  # of the bytes that left a node: rendezvous, Ray and ssh take the rest
_LEAST_BYTES = 1_000_000  # below it Ray's own chatter is as large as what was measured
_ALIKE = 0.05  # a device that carried as much as another, within this, may be the one below it
_LOGS = "the NCCL logs of the run"
_STACKED = ("bond", "team", "br")
_RDMA = frozenset({"ib", "roce"})
_OFI = "plugin:aws-ofi-nccl"
_OFI_RDMA = ("efa", "cxi", "verbs", "psm", "opx", "gni")
_OFI_TCP = ("tcp", "sockets", "udp", "net")
_ORDER: tuple[ProofVerdict, ...] = ("refuted", "unproven", "proved")


def worst(proofs: Iterable[Proof]) -> Proof:
    """The proof that decides: one refutation refutes, and all is proved only where each one is."""
    return min(proofs, key=lambda proof: _ORDER.index(proof.verdict))


def prove(expected: Expectation, outcome: TrialResult) -> Proof:
    """Hold a run against its label."""
    if outcome.node_count < 2:
        return Proof(verdict="unproven", seen="one node", basis="ranks of one node do not use the network")
    proofs = []
    if expected.kind is not None:
        proofs.append(_prove_kind(expected.kind, outcome))
    if expected.gdr is not None:
        proofs.append(_prove_gdr(expected.gdr, outcome))
    if expected.device is not None and not outcome.emulated:
        proofs.append(_prove_device(expected.device, outcome))
    if outcome.emulated:
        basis = "emulated nodes are processes of one machine"
        proofs.append(Proof(verdict="unproven", seen="no network at all", basis=basis))
    if not proofs:
        return Proof(verdict="unproven", seen="nothing", basis="the label promises nothing that could be checked")
    return _together(proofs)


def _together(proofs: Sequence[Proof]) -> Proof:
    """The verdict of the weakest part, with all that led to it."""
    verdict = worst(proofs).verdict
    decisive = [proof for proof in proofs if proof.verdict == verdict]
    seen = ", ".join(proof.seen for proof in decisive)
    return Proof(verdict=verdict, seen=seen, basis=", and ".join(dict.fromkeys(proof.basis for proof in decisive)))


def _prove_kind(kind: NetworkKind, outcome: TrialResult) -> Proof:
    if outcome.backend in TCP_BACKENDS:
        verdict: ProofVerdict = "proved" if kind == "socket" else "refuted"
        return Proof(verdict=verdict, seen="TCP", basis=f"the {outcome.backend} backend knows nothing else")
    gap = _gap(outcome)
    names = {outcome.network, *(name for name in outcome.log.networks.values() if name)}
    kinds = {_kind_of(name, outcome.log.providers) for name in names}
    via = f" over {', '.join(outcome.log.providers)}" if outcome.log.providers else ""
    seen = f"network {' and '.join(sorted(names))}{via}"
    if (kinds - {None}) - {kind}:
        return Proof(verdict="refuted", seen=seen, basis=_LOGS)
    if kinds != {kind} or gap:
        return Proof(verdict="unproven", seen=gap or seen, basis=_LOGS)
    return Proof(verdict="proved", seen=seen, basis=_LOGS)


def _gap(outcome: TrialResult) -> str | None:
    """Why the logs cannot speak for the whole run; None where they can."""
    if outcome.log.strange:
        return "not one process of this run in the logs: they are of another run"
    if outcome.log.unseen_nodes:
        return f"no log of any rank of {', '.join(outcome.log.unseen_nodes[:3])}"
    return None


def _kind_of(network: str, providers: Sequence[str]) -> str | None:
    """``socket``, ``rdma`` or ``mixed``; None where the name does not tell: libfabric may be either."""
    if network in TCP_NETWORKS:
        return "socket"
    if network == _OFI:
        kinds = {_provider_kind(provider) for provider in providers}
        return kinds.pop() if len(kinds) == 1 else None if None in kinds or not kinds else "mixed"
    return "rdma" if network in _RDMA else "mixed" if network == "mixed" else None


def _provider_kind(provider: str) -> str | None:
    plain = provider.lower()
    return "rdma" if plain.startswith(_OFI_RDMA) else "socket" if plain.startswith(_OFI_TCP) else None


def _prove_gdr(wanted: bool, outcome: TrialResult) -> Proof:
    gap, share = _gap(outcome), outcome.log.gdr_share
    if outcome.gdr is None:
        return Proof(verdict="unproven", seen="nothing that tells of GPUDirect RDMA", basis=_LOGS)
    seen = "GPUDirect RDMA" if outcome.gdr else "no GPUDirect RDMA"
    if outcome.gdr is not wanted:
        return Proof(verdict="refuted", seen=seen, basis=_LOGS)
    if wanted and share is not None and share < CARRIED_SHARE:
        return Proof(verdict="unproven", seen=f"{seen} on {share:.0%} of the channels only", basis=_LOGS)
    return Proof(verdict="unproven" if gap else "proved", seen=gap or seen, basis=_LOGS)


def _prove_device(device: str, outcome: TrialResult) -> Proof:
    basis = "the bytes that network devices sent during the run"
    if set(outcome.sent_bytes) != set(outcome.nodes):
        missing = next(node for node in outcome.nodes if node not in outcome.sent_bytes)
        return Proof(verdict="unproven", seen=f"no counters of {missing}", basis=basis)
    return worst(_prove_on_node(device, node, sent, basis) for node, sent in outcome.sent_bytes.items())


def _prove_on_node(device: str, node: str, sent_bytes: Mapping[str, int], basis: str) -> Proof:
    """Loopback carries what ranks of one node say to each other: no network, so it does not count."""
    own = sent_bytes.get(device, 0)
    others = {name: count for name, count in sent_bytes.items() if name not in (LOOPBACK, device)}
    busiest = max(others, key=lambda name: others[name], default=device)
    if own + sum(others.values()) < _LEAST_BYTES:
        return Proof(verdict="unproven", seen=f"{node} sent too little to tell", basis=basis)
    carried = others if not own else {name: count for name, count in others.items() if not _layers(device, name)}
    if device.startswith(_STACKED) and abs(sum(carried.values()) / max(own, 1) - 1) < _ALIKE:
        carried = {}
    share = own / (own + sum(carried.values()))
    if share >= CARRIED_SHARE:
        return Proof(verdict="proved", seen=f"{device} carried {share:.0%}", basis=basis)
    if own and abs(others[busiest] / own - 1) < _ALIKE:
        return Proof(
            verdict="unproven",
            seen=f"on {node} {device} and {busiest} carried the same amount, as a device and the one below it do",
            basis=basis,
        )
    return Proof(verdict="refuted", seen=f"on {node} {device} carried {share:.0%}, {busiest} most", basis=basis)


def _layers(one: str, other: str) -> bool:
    """Whether one is a VLAN of the other by its name: the same bytes are counted on both."""
    return one.startswith(f"{other}.") or other.startswith(f"{one}.")
