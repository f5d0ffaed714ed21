"""Is the faster network worth it? The same workload over TCP, RDMA without GPUDirect and RDMA, each proved. Pure."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from raybench.errors import UsageError
from raybench.studies.compare import Ratio, ratio_of
from raybench.studies.design import Study, Variant
from raybench.studies.network_proof import Expectation, Proof, prove
from raybench.studies.outcome import Measured, Outcome

WORTH_IT = 1.5  # shared opinion of practitioners: below it, complexity and price of RDMA are hard to argue for
EXPECTED = (2.0, 10.0)  # what RDMA usually gives over TCP where a job is bound by its network

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,14}")
# Settings that give each network, and what the run must then show. NCCL_IB_DISABLE alone leaves plugins in; LOC keeps
# GPUDirect RDMA off at every distance.
PRESETS: dict[str, tuple[dict[str, str], Expectation]] = {
    "tcp": ({"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"}, Expectation(kind="socket")),
    "rdma-no-gdr": ({"NCCL_NET_GDR_LEVEL": "LOC"}, Expectation(kind="rdma", gdr=False)),
    "rdma": ({}, Expectation(kind="rdma", gdr=True)),
}


def network_variant(text: str) -> Variant:
    """A variant from ``tcp``, ``rdma-no-gdr``, ``rdma``, or ``NAME=INTERFACE`` for TCP over that interface.

    Raises UsageError for anything else.
    """
    if text in PRESETS:
        return _variant(text, *PRESETS[text])
    name, equals, device = text.partition("=")
    if not equals or not _NAME.fullmatch(name) or not _DEVICE.fullmatch(device):
        known = ", ".join(PRESETS)
        raise UsageError(f"'{text}' is no network; there are {known}, and NAME=INTERFACE, such as fast=eth1")
    variables = PRESETS["tcp"][0] | {"NCCL_SOCKET_IFNAME": f"={device}", "GLOO_SOCKET_IFNAME": device}
    return _variant(name, variables, Expectation(kind="socket", device=device))


def _variant(name: str, variables: dict[str, str], expected: Expectation) -> Variant:
    arguments = tuple(part for key, value in variables.items() for part in ("--env", f"{key}={value}"))
    return Variant(name=name, arguments=arguments, facts={"expects": asdict(expected)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """One figure of one network against the baseline. ``side`` is that of `WORTH_IT`."""

    network: str
    label: str
    seconds: float
    baseline_seconds: float
    ratio: Ratio
    communication_ratio: float | None
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkAnswer:
    """The study's answer. Networks whose label is refuted are in ``refused`` and in no speedup."""

    baseline: str
    rows: tuple[tuple[str, Measured, float], ...]  # network, figure of the median block, its seconds
    speedups: tuple[Speedup, ...]
    proofs: dict[str, Proof]
    refused: tuple[str, ...]
    remarks: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As in the study's result."""
        return {
            "baseline": self.baseline,
            "networks": [
                {"network": name, **asdict(figure), "seconds": seconds} for name, figure, seconds in self.rows
            ],
            "speedups": [asdict(speedup) for speedup in self.speedups],
            "proofs": {name: asdict(proof) for name, proof in self.proofs.items()},
            "refused": list(self.refused),
            "worth_it_above": WORTH_IT,
            "expected": list(EXPECTED),
            "remarks": list(self.remarks),
        }


def answer_network(study: Study, outcomes: Sequence[Outcome]) -> NetworkAnswer:
    """Compare every network with the first that is not refused."""
    done = [outcome for outcome in outcomes if outcome.measured]
    proofs = {variant.name: _proof_of(variant, done) for variant in study.variants}
    refused = tuple(name for name, proof in proofs.items() if proof.verdict == "refuted")
    names = [variant.name for variant in study.variants if variant.name not in refused and _of(variant.name, done)]
    baseline = names[0] if names else ""
    speedups = [
        speedup
        for name in names[1:]
        for label in _labels(baseline, name, done)
        if (speedup := _speedup(baseline, name, label, done, proofs))
    ]
    rows = [(name, figure, _median_seconds(name, figure.label, done)) for name in names for figure in _of(name, done)]
    return NetworkAnswer(
        baseline=baseline,
        rows=tuple(rows),
        speedups=tuple(speedups),
        proofs=proofs,
        refused=refused,
        remarks=tuple(_remarks(study, outcomes, proofs, names)),
    )


def _proof_of(variant: Variant, outcomes: Sequence[Outcome]) -> Proof:
    """The worst proof of a variant's runs: one that went elsewhere spoils the comparison."""
    expected = Expectation(**variant.facts["expects"])
    proofs = [prove(expected, outcome) for outcome in outcomes if outcome.trial.variant == variant.name]
    if not proofs:
        return Proof(verdict="unproven", seen="no run", basis="nothing was measured")
    return min(proofs, key=lambda proof: ("refuted", "unproven", "proved").index(proof.verdict))


def _of(name: str, outcomes: Sequence[Outcome]) -> tuple[Measured, ...]:
    return next((outcome.measured for outcome in outcomes if outcome.trial.variant == name), ())


def _labels(first: str, second: str, outcomes: Sequence[Outcome]) -> list[str]:
    other = {figure.label for figure in _of(second, outcomes)}
    return [figure.label for figure in _of(first, outcomes) if figure.label in other]


def _by_block(name: str, label: str, outcomes: Sequence[Outcome]) -> dict[int, Measured]:
    found = {}
    for outcome in outcomes:
        figure = outcome.figure(label)
        if outcome.trial.variant == name and figure is not None:
            found[outcome.trial.block] = figure
    return found


def _median_seconds(name: str, label: str, outcomes: Sequence[Outcome]) -> float:
    ordered = sorted(figure.seconds for figure in _by_block(name, label, outcomes).values())
    return ordered[len(ordered) // 2]


def _speedup(
    baseline: str, name: str, label: str, outcomes: Sequence[Outcome], proofs: dict[str, Proof]
) -> Speedup | None:
    slow, fast = _by_block(baseline, label, outcomes), _by_block(name, label, outcomes)
    blocks = sorted(slow.keys() & fast.keys())
    if not blocks:
        return None
    ratio = ratio_of([slow[block].seconds for block in blocks], [fast[block].seconds for block in blocks])
    waits = [(slow[block].exposed_seconds, fast[block].exposed_seconds) for block in blocks]
    known = [(above, below) for above, below in waits if above and below and above > 0 and below > 0]
    proved = proofs[baseline].verdict == "proved" and proofs[name].verdict == "proved"
    return Speedup(
        network=name,
        label=label,
        seconds=_median_seconds(name, label, outcomes),
        baseline_seconds=_median_seconds(baseline, label, outcomes),
        ratio=ratio,
        communication_ratio=ratio_of(*map(list, zip(*known, strict=True))).value if known else None,
        verdict=verdict_of(ratio, proved=proved),
    )


def verdict_of(ratio: Ratio, *, proved: bool) -> str:
    """The sentence for a speedup: decided only by an interval that is clear of the bound, on networks proved."""
    if not proved:
        return "no verdict: which network was used is not proved"
    side = ratio.side_of(WORTH_IT)
    if side == "inconclusive":
        return f"inconclusive: the interval does not decide whether it is more than {WORTH_IT}x; raise --repeats"
    if side == "below":
        return f"not worth it for this workload: less than {WORTH_IT}x"
    if ratio.value < EXPECTED[0]:
        return f"worth it (more than {WORTH_IT}x), though less than the {EXPECTED[0]:g}x to {EXPECTED[1]:g}x usual"
    if ratio.value > EXPECTED[1]:
        return f"worth it, and more than the {EXPECTED[1]:g}x usual: look whether the slower network is healthy"
    return f"worth it: within the {EXPECTED[0]:g}x to {EXPECTED[1]:g}x usual"


def _remarks(study: Study, outcomes: Sequence[Outcome], proofs: dict[str, Proof], names: Sequence[str]) -> list[str]:
    remarks = [
        f"{name} is refused: its runs did not use that network ({proof.seen}, by {proof.basis})"
        for name, proof in proofs.items()
        if proof.verdict == "refuted"
    ]
    remarks += [
        f"{name} is not proved ({proof.seen}, by {proof.basis})"
        for name, proof in proofs.items()
        if proof.verdict == "unproven"
    ]
    if len(names) < 2:
        remarks.append("fewer than two networks were measured as labelled: nothing can be compared")
    if any(outcome.emulated for outcome in outcomes):
        remarks.append("the nodes are EMULATED on one machine: these figures say nothing about a network")
    if study.repeats < 3:
        remarks.append("fewer than three repeats: no useful interval; raise --repeats to 5")
    return remarks
