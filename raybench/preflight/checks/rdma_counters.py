"""Counters of RDMA ports: what grew while the probe looked, and what has added up since boot.

Congestion (CNPs, marked packets) and some retransmissions are normal: ``rdma_peers`` compares them between ports.
"""

import re
from collections.abc import Mapping

from raybench.preflight.host_view import HostView
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

# Errors a second above which a port is bad, or worth a look. NVSentinel's and Azure's limits.
_FATAL_RATES = {
    "link_downed": 0.0,
    "local_link_integrity_errors": 0.0,
    "excessive_buffer_overrun_errors": 0.0,
    "rnr_nak_retry_err": 0.0,
    "port_rcv_errors": 10.0,
}
_WARN_RATES = {
    "symbol_error": 10.0,
    "link_error_recovery": 5 / 60,
    "port_xmit_discards": 100.0,
    "local_ack_timeout_err": 1.0,
    "roce_slow_restart": 10.0,
    "packet_seq_err": 10.0,
    "out_of_sequence": 1000.0,
    "rx_icrc_encapsulated": 0.0,
    "implied_nak_seq_err": 10.0,
    "roce_adp_retrans_to": 1.0,
    "out_of_buffer": 1000.0,
    # completions with an error that are not the flushes with which every connection ends: a job fails now
    "req_cqe_error": 0.0,
    "resp_cqe_error": 0.0,
    "req_transport_retries_exceeded": 0.0,
    "req_rnr_retries_exceeded": 0.0,
    # Soft-RoCE
    "retry_exceeded_err": 0.0,
    "retry_rnr_exceeded_err": 0.0,
    "rcvd_seq_err": 10.0,
    # Broadcom's bnxt_re
    "max_retry_exceeded": 0.0,
    "unrecoverable_err": 0.0,
    "to_retransmits": 1.0,
    "seq_err_naks_rcvd": 10.0,
    "rx_roce_error_pkts": 10.0,
    "rx_roce_discard_pkts": 100.0,
    # EFA: what AWS says to alert on the rate of; retransmissions alone are normal
    "rx_drops": 10.0,
    "retrans_timeout_events": 1.0,
    "unresponsive_remote_events": 1.0,
    "impaired_remote_conn_events": 1.0,
}
# A completion of ``mlx5`` that was flushed, as all are that wait when a connection ends, is counted in both.
_FLUSHED = {"req_cqe_error": "req_cqe_flush_error", "resp_cqe_error": "resp_cqe_flush_error"}
# Totals since the counter was reset that are worth a look (Azure's skill: downed and recovery > 0, receive > 100).
_WARN_TOTALS = {"link_error_recovery": 0, "port_rcv_errors": 100, "port_xmit_discards": 1000, "symbol_error": 1000}
# ``mlx5_core 0000:b1:00.0 ens1f0: Link down``, ``bnxt_en 0000:41:00.0 eth2: NIC Link is Down``
_LINK_DOWN = re.compile(
    r"(?:mlx5_core|mlx4_en|bnxt_en|ice|irdma)\S*\s+[0-9a-f:.]+\s+(\S+): (?:NIC )?[Ll]ink (?:is )?(?i:down)"
)
_ADVICE = (
    "clean or change cable or transceiver, try another switch port; perfquery -x, ethtool -S, mlxlink -c tell more"
)


def errors(view: HostView) -> Judgement:
    """Errors a second over the probe's interval, then totals."""
    reading = view.readings.get("counters")
    if reading is None:
        return skipped("no RDMA port has counters")
    before: Mapping[str, int] = used_counters(view, reading.get("before", {}))
    after: Mapping[str, int] = used_counters(view, reading.get("after", {}))
    if reading.get("after") and not after:
        return skipped("all ports with counters are in preflight_ports_ignored")
    seconds = float(reading.get("seconds") or 0)
    if seconds <= 0 or not after:
        return unknown("the counters could not be read twice")
    before, after = without_flushes(before), without_flushes(after)
    rates = {path: (after[path] - value) / seconds for path, value in before.items() if after.get(path, 0) > value}
    fatal = _above(rates, _FATAL_RATES)
    if fatal:
        return failed(
            f"growing: {_per_second(fatal)}", "no errors", f"over {seconds:.1f} s; NVSentinel's limits", _ADVICE
        )
    growing = _above(rates, _WARN_RATES)
    if growing:
        return warned(
            f"growing: {_per_second(growing)}", "few errors", f"over {seconds:.1f} s; NVSentinel's limits", _ADVICE
        )
    totals = _above({path: float(value) for path, value in after.items()}, _WARN_TOTALS)
    if totals:
        seen = ", ".join(f"{path} {value:.0f}" for path, value in sorted(totals.items()))
        advice = f"perfquery -R resets them; check again after a day. {_ADVICE}"
        return warned(seen, "few errors", "totals since they were reset", advice)
    return passed(
        f"no errors in {seconds:.1f} s on {len({path.rsplit('/', 2)[0] for path in after})} ports", "no errors"
    )


def without_flushes(counters: Mapping[str, int]) -> dict[str, int]:
    """Completions with an error less the flushed ones; left out where flushes are not counted apart."""
    found = dict(counters)
    for path in counters:
        folder, _, name = path.rpartition("/")
        flushed = f"{folder}/{_FLUSHED[name]}" if name in _FLUSHED else ""
        if flushed in counters:
            found[path] = max(0, counters[path] - counters[flushed])
        elif flushed:
            del found[path]
    return found


def used_counters(view: HostView, counters: Mapping[str, int]) -> dict[str, int]:
    """Counters of ports that are used: ``mlx5_0/ports/1/counters/symbol_error``."""
    return {
        path: value
        for path, value in counters.items()
        if not view.is_ignored_port(path.split("/")[0], (path.split("/") + [""] * 2)[2])
    }


def _above(values: Mapping[str, float], limits: Mapping[str, float]) -> dict[str, float]:
    return {
        path.replace("/ports/", "/").replace("/counters/", " ").replace("/hw_counters/", " "): value
        for path, value in values.items()
        if value > limits.get(path.rsplit("/", 1)[-1], float("inf"))
    }


def _per_second(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}/s" for name, value in sorted(values.items()))


def flaps(view: HostView) -> Judgement:
    """Links that went down again and again, by the kernel's log within the hours that count."""
    if not view.has_rdma:
        return skipped("no RDMA device here")
    own = {name: device for name, device in view.rdma_interfaces.items() if not view.is_ignored_port(device, 1)}
    interfaces = set(own) | set(own.values())
    counts: dict[str, int] = {}
    for message in view.kernel_messages:
        match = _LINK_DOWN.search(message.text)
        if match and (not view.rdma_interfaces or match[1] in interfaces):
            counts[match[1]] = counts.get(match[1], 0) + 1
    limit = view.expected.link_flaps_max
    hours = f"{view.expected.log_hours:g} h"
    bad = {name: count for name, count in counts.items() if count > limit}
    seen = ", ".join(f"{name} {count} times" for name, count in sorted((bad or counts).items()))
    if bad:
        return failed(f"{seen} down", f"at most {limit} in {hours}", "AzureHPC: 5 in 24 h", _ADVICE)
    return passed(f"{seen} down" if counts else f"none in {hours}", f"at most {limit} in {hours}")
