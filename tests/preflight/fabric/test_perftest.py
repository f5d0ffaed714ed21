"""Outputs of ib_write_bw and ib_write_lat as figures: recorded ones of real NICs, and what must give no figure."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raybench.preflight.fabric.errors import NoFigureError
from raybench.preflight.fabric.measurements import advice_for, figure
from raybench.preflight.fabric.perftest import (
    Latency,
    parse_bandwidth,
    parse_latency,
)

RECORDED = Path(__file__).parent / "recorded"
MIB = 2**20 * 8e-9


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


@pytest.mark.parametrize(
    ("name", "message_bytes", "iterations", "gbit_per_s"),
    [
        ("gb10_connectx7_roce_duration.txt", 65536, 1059332, 92.57),
        ("connectx5_roce_read_mib_frequency_lines.txt", 65536, 1000, 10401.68 * MIB),
        ("mixed_connectx5_connectx6_25g.txt", 65536, 5000, 2709.48 * MIB),
        ("efa_srd_all_sizes_mib.txt", 8192, 1000, 8909.75 * MIB),
        ("without_message_rate.txt", 65536, 5000, 939.37 * MIB),
        ("hns_roce_without_peak.txt", 1048576, 93205, 23302.26 * MIB),
        ("connectx7_roce_400g_mib.txt", 65536, 5000, 46339.84 * MIB),
        ("connectx7_with_least_column.txt", 65536, 5000, 368.48),
        ("connectx6_ib_all_sizes_frequency_lines.txt", 8, 5000, 16.96 * MIB),
        ("connectx3_all_sizes_without_peak.txt", 256, 50000, 1318.94 * MIB),
        ("soft_roce_write_bw.txt", 65536, 1415, 0.24),
        ("soft_roce_overloaded.txt", 65536, 16, 0.004113),  # emulated; its message rate is too coarse to check with
    ],
)
def test_recorded_bandwidths(name: str, message_bytes: int, iterations: int, gbit_per_s: float) -> None:
    row = parse_bandwidth(recorded(name))[-1]
    assert (row.message_bytes, row.iterations) == (message_bytes, iterations)
    assert row.gbit_per_s == pytest.approx(gbit_per_s)
    assert row.notes == ()


def test_a_heading_in_the_wrong_unit_is_seen_by_the_message_rate() -> None:
    (row,) = parse_bandwidth(recorded("connectx6_server_heading_in_mb_rows_in_gbits.txt"))
    assert row.gbit_per_s == pytest.approx(96.25, rel=1e-3)
    assert "message rate gives 96.25 Gb/s" in row.notes[0]


def test_a_rate_too_coarse_to_check_with_leaves_the_figure_alone() -> None:
    heading = "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
    (row,) = parse_bandwidth(heading + " 8388608 50 0.40 0.36 0.000005\n")  # 0.000005 rounds 7 % away
    assert (row.gbit_per_s, row.notes) == (0.36, ())


def test_every_row_of_all_sizes_is_read() -> None:
    assert [row.message_bytes for row in parse_bandwidth(recorded("efa_srd_all_sizes_mib.txt"))] == [2, 4096, 8192]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("connectx_ib_read_latency.txt", (1.27, 1.27, 1.24, 5.19, 1.37)),
        ("connectx3_latency_duration.txt", (3.88, None, None, None, None)),
        ("efa_srd_latency.txt", (22.98, 15.78, 14.11, 1210.34, 22.37)),
        ("soft_roce_write_lat.txt", (1332.66, 380.31, 155.25, 30157.22, 16476.34)),
        ("soft_roce_latency_deviation_not_a_number.txt", (14945.44, 3548.79, 223.01, 234938.3, 170603.32)),
        ("first_generation_latency_without_average.txt", (1.02, 1.02, 0.96, 14.2, None)),
    ],
)
def test_recorded_latencies(name: str, expected: tuple[float | None, ...]) -> None:
    (row,) = parse_latency(recorded(name))
    assert (row.average_us, row.typical_us, row.least_us, row.most_us, row.percentile_99_us) == expected


def test_the_typical_latency_counts_where_it_is_known() -> None:
    assert figure(recorded("efa_srd_latency.txt"), "ib_write_lat")[0] == 15.78
    assert figure(recorded("connectx3_latency_duration.txt"), "ib_write_lat")[0] == 3.88


@pytest.mark.parametrize(
    ("name", "words", "advice"),
    [
        ("refused.txt", "socket connection", "firewall"),
        ("waiting_server.txt", "Waiting for client", "by hand"),
        ("retries_exceeded.txt", "scnt=128", "by hand"),
        ("soft_roce_nothing_transferred.txt", "not measured: the average is 0", "MTU"),
    ],
)
def test_a_table_without_a_row_is_no_figure(name: str, words: str, advice: str) -> None:
    with pytest.raises(NoFigureError, match=words) as caught:
        parse_bandwidth(recorded(name))
    if advice == "firewall":
        assert advice in advice_for("Couldn't connect to 10.88.0.2:18515")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [("bluefield3_port_down.txt", "port is down"), ("soft_roce_no_such_device.txt", "load its driver")],
)
def test_what_a_tool_says_before_it_gives_up_gets_its_own_advice(name: str, words: str) -> None:
    for parse in (parse_bandwidth, parse_latency):
        with pytest.raises(NoFigureError):
            parse(recorded(name))
    assert words in advice_for(recorded(name))
    assert words not in advice_for(recorded("soft_roce_write_bw.txt"))


def test_every_output_that_is_kept_is_read_by_a_test() -> None:
    source = Path(__file__).read_text() + (Path(__file__).parent / "test_agents.py").read_text()
    assert [path.name for path in RECORDED.iterdir() if path.name != "README.md" and path.name not in source] == []


def test_lost_packets_get_their_own_advice() -> None:
    assert "PFC" in advice_for(recorded("retries_exceeded.txt"))


@pytest.mark.parametrize(
    "row",
    ["65536 1000 0.00 0.00 0.000000", "65536 1000 -5.1 -2.0 0.1", "65536 1000 nan nan nan", "65536 1000 inf inf 1"],
)
def test_figures_that_cannot_be_are_refused(row: str) -> None:
    heading = "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]"
    with pytest.raises(NoFigureError):
        parse_bandwidth(f"{heading}\n{row}\n")


@pytest.mark.parametrize("spoilt", ["t_avg[usec]", "t_typical[usec]"])
def test_a_latency_that_is_none_is_refused_where_its_deviation_is_not(spoilt: str) -> None:
    """perftest 6.06 prints ``-nan`` for a deviation that it cannot compute; see the recorded output."""
    text = recorded("soft_roce_latency_deviation_not_a_number.txt")
    value = {"t_avg[usec]": "14945.44", "t_typical[usec]": "3548.79"}[spoilt]
    with pytest.raises(NoFigureError, match="cannot be"):
        parse_latency(text.replace(value, "-nan"))


def test_a_row_before_any_heading_and_a_latency_table_are_no_bandwidth() -> None:
    for text in (" 65536 5000 197.3 197.3 0.37\n", recorded("connectx_ib_read_latency.txt")):
        with pytest.raises(NoFigureError):
            parse_bandwidth(text)
    with pytest.raises(NoFigureError):
        parse_latency(recorded("gb10_connectx7_roce_duration.txt"))


@given(st.text(max_size=300))
def test_any_text_gives_a_figure_or_says_that_there_is_none(text: str) -> None:
    for parse in (parse_bandwidth, parse_latency):
        for whole in (text, f"#bytes #iterations BW average[Gb/sec] t_avg[usec]\n{text}"):
            try:
                found = parse(whole)
            except NoFigureError:
                continue
            for one in found:
                value = one.average_us if isinstance(one, Latency) else one.gbit_per_s
                assert 0 <= value < float("inf")
