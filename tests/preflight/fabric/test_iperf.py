"""iperf3's JSON and our own TCP stream as figures."""

import json
from typing import Any

import pytest

from raybench.preflight.fabric.counters import grown
from raybench.preflight.fabric.errors import NoFigureError
from raybench.preflight.fabric.iperf import parse_iperf, parse_own_stream

# The end of a run of iperf 3.12, four streams, as recorded on a lab link of 100 Mb/s.
IPERF: dict[str, Any] = {
    "start": {"version": "iperf 3.12", "test_start": {"num_streams": 2}},
    "end": {
        "streams": [{}, {}],
        "sum_sent": {"seconds": 2.0, "bytes": 26214400, "bits_per_second": 104857600.0, "retransmits": 7},
        "sum_received": {"seconds": 2.04, "bytes": 24379392, "bits_per_second": 95605458.8},
        "sender_tcp_congestion": "cubic",
    },
}


def test_what_arrived_counts_not_what_was_sent() -> None:
    stream = parse_iperf(f"warning: unable to set TCP buffer\n{json.dumps(IPERF)}\n")
    assert stream.gbit_per_s == pytest.approx(0.0956054588)
    assert (stream.streams, stream.retransmits, stream.tool) == (2, 7, "iperf 3.12")


def test_an_error_of_iperf_is_handed_on() -> None:
    said = {"start": {"connected": []}, "end": {}, "error": "unable to connect to server: Connection refused"}
    with pytest.raises(NoFigureError, match="Connection refused"):
        parse_iperf(json.dumps(said))


def test_a_run_that_was_cut_off_gives_no_figure() -> None:
    sent_only = IPERF | {"end": IPERF["end"] | {"sum_received": {"seconds": 0, "bits_per_second": 0}}}
    for text in (
        json.dumps(sent_only),
        json.dumps(IPERF)[:200],
        "",
        "[]",
        '{"end": []}',
        '{"end": {"sum_received": 5}}',
    ):
        with pytest.raises(NoFigureError):
            parse_iperf(text)


def test_our_own_stream() -> None:
    stream = parse_own_stream('{"received_bytes": 250000000, "seconds": 2.0, "streams": 4}')
    assert (stream.gbit_per_s, stream.streams) == (1.0, 4)
    for text in ('{"received_bytes": 0, "seconds": 0.0}', '{"received_bytes": true, "seconds": 1}', "{}", "nothing"):
        with pytest.raises(NoFigureError):
            parse_own_stream(text)


def test_counters_that_grew_by_weight() -> None:
    before = {"symbol_error": 3, "port_xmit_data": 5, "out_of_sequence": 1, "np_cnp_sent": 0, "link_downed": 2}
    after = {"symbol_error": 9, "port_xmit_data": 999, "out_of_sequence": 1, "np_cnp_sent": 4, "link_downed": 2}
    assert [(one.name, one.by, one.weight) for one in grown(before, after)] == [
        ("symbol_error", 6, "fault"),
        ("np_cnp_sent", 4, "congestion"),
    ]
    assert grown({"symbol_error": 9}, {"symbol_error": 2})[0].by == 2  # reset in between
    assert grown({}, {"symbol_error": 2}) == ()  # unknown before is not growth
