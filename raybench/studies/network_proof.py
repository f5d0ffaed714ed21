"""Whether a run used the network that its label says: proved, refuted, or unproven. Pure.

A setting is a wish. NCCL's log names the network it took and whether GPUDirect RDMA was on; byte counters tell which
interface carried the data, whatever the library. A figure whose label is refuted is no figure of that network at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from diagnostics.transport import TCP_NETWORKS
from raybench.studies.outcome import Outcome

ProofVerdict = Literal["proved", "refuted", "unproven"]

CARRIED_SHARE = 0.9  # of all bytes that left the nodes: rendezvous, Ray and ssh take the rest
_LEAST_BYTES = 1_000_000  # below it Ray's own chatter is as large as what was measured
_RDMA = frozenset({"ib", "roce", "plugin:aws-ofi-nccl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the label of a run promises: ``kind`` socket or rdma, ``gdr``, the ``device`` that carries the data."""

    kind: Literal["socket", "rdma"] | None = None
    gdr: bool | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The judgement of one run, with what it rests on."""

    verdict: ProofVerdict
    seen: str
    basis: str


def prove(expected: Expectation, outcome: Outcome) -> Proof:
    """Hold a run against its label. One refutation refutes; proved only where everything promised was seen."""
    if outcome.node_count < 2:
        return Proof(verdict="unproven", seen="one node", basis="ranks of one node do not use the network")
    proofs = []
    if expected.kind is not None:
        proofs.append(_prove_kind(expected.kind, outcome))
    if expected.gdr is not None:
        proofs.append(_prove_gdr(expected.gdr, outcome))
    if expected.device is not None:
        proofs.append(_prove_device(expected.device, outcome.sent_bytes))
    if not proofs:
        return Proof(verdict="unproven", seen="nothing", basis="the label promises nothing that could be checked")
    order: tuple[ProofVerdict, ...] = ("refuted", "unproven", "proved")
    return min(proofs, key=lambda proof: order.index(proof.verdict))


def _prove_kind(kind: str, outcome: Outcome) -> Proof:
    if outcome.backend == "gloo":
        verdict: ProofVerdict = "proved" if kind == "socket" else "refuted"
        return Proof(verdict=verdict, seen="socket", basis="gloo knows TCP only")
    basis = "the NCCL logs of the run"
    seen_kind = _kind_of(outcome.network)
    if seen_kind is None:
        return Proof(verdict="unproven", seen=outcome.network, basis=f"{basis} do not tell sockets from RDMA")
    return Proof(verdict="proved" if seen_kind == kind else "refuted", seen=outcome.network, basis=basis)


def _kind_of(network: str) -> str | None:
    """``socket``, ``rdma`` or ``mixed``; None where the name does not tell."""
    if network in TCP_NETWORKS:
        return "socket"
    return "rdma" if network in _RDMA else "mixed" if network == "mixed" else None


def _prove_gdr(wanted: bool, outcome: Outcome) -> Proof:
    basis = "the NCCL logs of the run"
    if outcome.gdr is None:
        return Proof(verdict="unproven", seen="GPUDirect RDMA unknown", basis=f"{basis} do not tell")
    seen = "with GPUDirect RDMA" if outcome.gdr else "without GPUDirect RDMA"
    return Proof(verdict="proved" if outcome.gdr is wanted else "refuted", seen=seen, basis=basis)


def _prove_device(device: str, sent_bytes: Mapping[str, int]) -> Proof:
    """Loopback carries what ranks of one node say to each other: no network, so it does not count."""
    carried = {name: count for name, count in sent_bytes.items() if name != "lo"}
    total = sum(carried.values())
    basis = "bytes sent by the nodes' network devices during the run"
    if total < _LEAST_BYTES:
        return Proof(verdict="unproven", seen=f"{total} bytes in all", basis=f"{basis}: too few to tell")
    share = carried.get(device, 0) / total
    busiest = max(carried, key=lambda name: carried[name])
    seen = f"{device} carried {share:.0%}" + ("" if busiest == device else f", {busiest} most")
    return Proof(verdict="proved" if share >= CARRIED_SHARE else "refuted", seen=seen, basis=basis)
