"""Is the faster network worth it? The same workload over TCP, RDMA without GPUDirect and RDMA, each proved. Pure."""

import math
import re
from collections.abc import Sequence

from msgspec.structs import replace

from raybench.documents.study.network import NetworkAnswer, NetworkRow, Proof, Speedup
from raybench.documents.study.plan import Expectation, Study, Variant, VariantFacts
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.trial import Measured, TrialResult
from raybench.errors import UsageError, known_names
from raybench.stats import median
from raybench.studies.compare import ratio_of, self_ratio
from raybench.studies.costs import Costing
from raybench.studies.network_proof import prove, worst
from raybench.studies.training_rows import overhead_of, usable

WORTH_IT = 1.5  # shared opinion of practitioners: below it, complexity and price of RDMA are hard to argue for
EXPECTED = (2.0, 10.0)  # what RDMA usually gives over TCP where a job is bound by its network

_ALONE = "fewer than two networks were measured as labelled: nothing can be compared"
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
        raise UsageError(
            f"'{text}' is not a network; {known_names(text, PRESETS)}, and NAME=INTERFACE, such as fast=eth1"
        )
    if name in PRESETS:
        raise UsageError(f"'{name}' is a network of its own; give yours another name, such as my-{name}={device}")
    variables = PRESETS["tcp"][0] | {"NCCL_SOCKET_IFNAME": f"={device}", "GLOO_SOCKET_IFNAME": device}
    return _variant(name, variables, Expectation(kind="socket", device=device))


def _variant(name: str, variables: dict[str, str], expected: Expectation) -> Variant:
    arguments = tuple(part for key, value in variables.items() for part in ("--env", f"{key}={value}"))
    return Variant(name=name, arguments=arguments, facts=VariantFacts(expects=expected))


def answer_network(study: Study, outcomes: Sequence[TrialResult], costing: Costing | None = None) -> NetworkAnswer:
    """Compare every network with the first that is not refused."""
    costing = costing or Costing()
    done = usable(outcomes)
    proofs = {variant.name: _proof_of(variant, outcomes) for variant in study.variants}
    refused = tuple(name for name, proof in proofs.items() if proof.verdict == "refuted")
    names = [variant.name for variant in study.variants if variant.name not in refused and _of(variant.name, done)]
    baseline = names[0] if names else ""
    proved = {name for name, proof in proofs.items() if proof.verdict == "proved"}
    return NetworkAnswer(
        baseline=baseline,
        rows=tuple(_priced(_row(name, label, done), done, costing) for name in names for label in _of(name, done)),
        speedups=tuple(
            _speedup(baseline, name, label, done, proved={baseline, name} <= proved)
            for name in names[1:]
            for label in _of(name, done)
            if _blocks(baseline, label, done).keys() & _blocks(name, label, done).keys()
        ),
        proofs=proofs,
        refused=refused,
        remarks=(_ALONE,) if len(names) < 2 else (),
        price=costing.price,
        worth_it_above=WORTH_IT,
        expected=EXPECTED,
    )


def _priced(row: NetworkRow, outcomes: Sequence[TrialResult], costing: Costing) -> NetworkRow:
    nodes = next(outcome.node_count for outcome in outcomes if outcome.trial.variant == row.network)
    return replace(row, cost=costing.of(nodes, row.samples_per_s, row.tokens_per_s))


def _proof_of(variant: Variant, outcomes: Sequence[TrialResult]) -> Proof:
    """The worst proof of a variant's runs: one that went elsewhere spoils the comparison."""
    expected = variant.facts.expects or Expectation()
    mine = [outcome for outcome in outcomes if outcome.trial.variant == variant.name and outcome.measured]
    if not mine:
        return Proof(verdict="unproven", seen="no run", basis="nothing was measured")
    return worst(prove(expected, outcome) for outcome in mine)


def _of(name: str, outcomes: Sequence[TrialResult]) -> list[str]:
    """Labels of a network's figures, each once, in their order."""
    return list(
        dict.fromkeys(
            figure.label for outcome in outcomes if outcome.trial.variant == name for figure in outcome.measured
        )
    )


def _blocks(name: str, label: str, outcomes: Sequence[TrialResult]) -> dict[int, Measured]:
    """A network's figure by block."""
    found = ((outcome.trial, outcome.figure(label)) for outcome in outcomes)
    return {trial.block: figure for trial, figure in found if trial.variant == name and figure is not None}


def _row(name: str, label: str, outcomes: Sequence[TrialResult]) -> NetworkRow:
    figures = list(_blocks(name, label, outcomes).values())
    seconds = median([figure.seconds for figure in figures])

    def middle(field: str) -> float | None:
        known = [value for figure in figures if (value := getattr(figure, field)) is not None]
        return median(known) if known else None

    exposed = middle("exposed_seconds")

    def rate(field: str) -> float | None:
        """What one operation or step moves, over the row's time: a row's figures then follow from each other."""
        per_second = getattr(figures[0], field)
        return None if per_second is None else per_second * figures[0].seconds / seconds

    return NetworkRow(
        network=name,
        label=label,
        blocks=len(figures),
        seconds=seconds,
        samples_per_s=rate("samples_per_s"),
        tokens_per_s=rate("tokens_per_s"),
        busbw_gb_per_s=rate("busbw_gb_per_s"),
        exposed_seconds=exposed,
        overhead=overhead_of(exposed, seconds, figures),
    )


def _speedup(baseline: str, name: str, label: str, outcomes: Sequence[TrialResult], *, proved: bool) -> Speedup:
    slow, fast = _blocks(baseline, label, outcomes), _blocks(name, label, outcomes)
    blocks = sorted(slow.keys() & fast.keys())
    rows = [_row(one, label, outcomes) for one in (baseline, name)]
    ratio = ratio_of(
        [slow[block].seconds for block in blocks],
        [fast[block].seconds for block in blocks],
        rows[0].seconds / rows[1].seconds,
    )
    waits = [(slow[block].exposed_seconds, fast[block].exposed_seconds) for block in blocks]
    known = [(above, below) for above, below in waits if above and below]
    noise = max(self_ratio([figure.seconds for figure in side.values()]) for side in (slow, fast))
    overhead = rows[0].overhead
    waited = [row.exposed_seconds for row in rows]
    of_waits = waited[0] / waited[1] if waited[0] and waited[1] else None
    return Speedup(
        network=name,
        label=label,
        ratio=ratio,
        exposed_ratio=ratio_of([pair[0] for pair in known], [pair[1] for pair in known], of_waits) if known else None,
        self_ratio=noise,
        ceiling=None if overhead is None or not 0 <= overhead < 1 else 1 / (1 - overhead),
        verdict=verdict_of(ratio, noise, proved=proved),
    )


def verdict_of(ratio: Ratio, noise: float, *, proved: bool) -> str:
    """The sentence for a speedup.

    Decided only where the networks are proved, the interval is clear of the bound, and the bound is farther away than
    the same network is from itself in another block (``noise``).
    """
    if not proved:
        return "no verdict: which network was used is not proved"
    if ratio.differs and not (ratio.low or 0.0) <= (ratio.of_rows or 0.0) <= (ratio.high or math.inf):
        return f"inconclusive: it is {ratio.text}: repeats differ too much; look for other jobs"
    side = ratio.side_of(WORTH_IT)
    if side == "inconclusive":
        return f"inconclusive: the interval does not decide whether it is more than {WORTH_IT}x; raise --repeats"
    if max(ratio.value / WORTH_IT, WORTH_IT / ratio.value) <= noise:
        return f"inconclusive: one network differs from itself by {noise:.2f}x between blocks; look for other jobs"
    return f"not worth it for this workload: less than {WORTH_IT}x" if side == "below" else _worth(ratio)


def _worth(ratio: Ratio) -> str:
    if ratio.side_of(EXPECTED[0]) == "below":
        return f"worth it (more than {WORTH_IT}x), though less than the {EXPECTED[0]:g}x to {EXPECTED[1]:g}x usual"
    if ratio.side_of(EXPECTED[1]) == "above":
        return f"worth it, and more than the {EXPECTED[1]:g}x usual: look whether the slower network is healthy"
    return f"worth it: within the {EXPECTED[0]:g}x to {EXPECTED[1]:g}x usual"
