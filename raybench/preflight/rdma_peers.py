"""Counters of RDMA ports beside their peers': retransmissions and congestion are normal, far more than others' is not.

A port is compared with the port of the same name of the other hosts (its rail), where there are enough, else with the
ports of its own host that have its rate. What it counted is taken per million packets that it sent or received, so that
a busy port is no worse than an idle one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from raybench.documents.preflight import CheckResult
from raybench.preflight.checks.rdma_counters import used_counters, without_flushes
from raybench.preflight.host_view import HostView, UnavailableError
from raybench.stats import median

CHECK = "rdma-peers"
_LEAST_PEERS = 3
_LEAST_PACKETS = 1_000_000  # below, a few retransmissions are many
_LEAST_TOTAL = 1000
_LEAST_A_MILLION = 10.0  # one packet of 100 000: below, nobody notices
_TIMES = 10.0  # as many as the median of its peers
_SENT, _RECEIVED = "port_xmit_packets", "port_rcv_packets"
# What is compared, with the packets that it is a share of.
_OF: Mapping[str, str] = {
    "local_ack_timeout_err": _SENT,
    "packet_seq_err": _SENT,
    "implied_nak_seq_err": _SENT,
    "rnr_nak_retry_err": _SENT,
    "roce_adp_retrans": _SENT,
    "rp_cnp_handled": _SENT,
    "req_cqe_error": _SENT,
    "out_of_sequence": _RECEIVED,
    "out_of_buffer": _RECEIVED,
    "np_cnp_sent": _RECEIVED,
    "np_ecn_marked_roce_packets": _RECEIVED,
    "rx_icrc_encapsulated": _RECEIVED,
    "resp_cqe_error": _RECEIVED,
}
_EXPECTED = f"at most {_TIMES:g} times its peers'"
_BASIS = "counters since the driver was loaded, per million packets"
_ADVICE = (
    "look at this port's cable and switch port, and at its path: raybench fabric run; congestion (CNPs, marked "
    "packets) of one port alone is often a lossless class or a hash of paths that is unlike the others'"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """A counter of a port: its total, and that per million packets."""

    host: str
    port: str
    rate_gbits: float | None
    counter: str
    total: int
    a_million: float


def peer_results(hosts: Mapping[str, HostView], groups: Mapping[str, str]) -> dict[str, CheckResult]:
    """A result a host: whether a counter of one of its ports is far above the median of its peers and itself."""
    shares = {host: _readable_shares(host, view) for host, view in hosts.items()}
    rails: dict[tuple[str, ...], list[float]] = {}
    for host, own in shares.items():
        for one in own:
            rails.setdefault((groups.get(host, ""), one.port, one.counter), []).append(one.a_million)
    usual = {place: median(found) for place, found in rails.items() if len(found) > _LEAST_PEERS}
    return {host: _result([(one, _usual(one, groups, usual, own)) for one in own]) for host, own in shares.items()}


def _readable_shares(host: str, view: HostView) -> tuple[_Share, ...]:
    """Those of a host; none where an output that they need cannot be read, which its own checks tell."""
    try:
        return tuple(_shares(host, view))
    except (UnavailableError, ValueError, KeyError, TypeError):
        return ()


def _usual(
    one: _Share, groups: Mapping[str, str], usual: Mapping[tuple[str, ...], float], own: Sequence[_Share]
) -> float | None:
    """What is usual for a counter on a port's rail, else on the ports of its host; None where too few tell."""
    place = (groups.get(one.host, ""), one.port, one.counter)
    if place in usual:
        return usual[place]
    alike = [other.a_million for other in own if (other.counter, other.rate_gbits) == (one.counter, one.rate_gbits)]
    return median(alike) if len(alike) > _LEAST_PEERS else None


def _shares(host: str, view: HostView) -> Iterator[_Share]:
    reading = view.readings.get("counters", {})
    counters = without_flushes(used_counters(view, reading.get("after") or {}))
    rates = {port.name: port.rate_gbits for port in view.ports}
    for path, total in counters.items():
        device, _, rest = path.partition("/ports/")
        number, _, name = rest.partition("/hw_counters/")
        packets = counters.get(f"{device}/ports/{number}/counters/{_OF.get(name, '')}", 0)
        if packets >= _LEAST_PACKETS and device not in view.software_devices:
            port = f"{device}/{number}"
            share = total / packets * 1e6
            yield _Share(host=host, port=port, rate_gbits=rates.get(port), counter=name, total=total, a_million=share)


def _result(own: Sequence[tuple[_Share, float | None]]) -> CheckResult:
    compared = [(one, usual) for one, usual in own if usual is not None]
    odd = []
    for one, usual in compared:
        if one.total >= _LEAST_TOTAL and one.a_million > max(_LEAST_A_MILLION, _TIMES * usual):
            told = f"{one.port} {one.counter} {one.total}: {one.a_million:.3g} a million packets, its peers {usual:.3g}"
            odd.append((one.a_million / max(usual, 1e-3), told))
    if not compared:
        return CheckResult(check=CHECK, verdict="skipped", seen="no port with packets and enough peers to compare with")
    if not odd:
        seen = f"{len(compared)} counters are as their peers'"
        return CheckResult(check=CHECK, verdict="pass", seen=seen, expected=_EXPECTED)
    seen = "; ".join(text for _, text in sorted(odd, reverse=True)[:6])
    return CheckResult(check=CHECK, verdict="warn", seen=seen, expected=_EXPECTED, basis=_BASIS, advice=_ADVICE)
