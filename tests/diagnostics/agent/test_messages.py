"""What an agent says comes back as it was; what is no message costs its line and nothing else."""

import contextlib
import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.agent.message_reader import MAX_LINE_BYTES, MessageReader, decode
from diagnostics.agent.messages import Clock, Event, Message, Reading, Source, Warned, encode
from diagnostics.agent.series import SERIES, series_of, split_name
from diagnostics.errors import BadMessageError
from diagnostics.findings import Evidence, Finding, Recommendation

FINDING = Finding(
    rule="port-errors",
    severity="warning",
    confidence="certain",
    summary="node-7 mlx5_3:1: 4100 symbol errors in 5 s",
    explanation="The cable or its connector is bad.",
    hosts=("node-7",),
    evidence=(Evidence(file="/dev/kmsg", line=12, text="mlx5_core: Link down"),),
    recommendations=(Recommendation(action="cable", text="Reseat it.", commands=("mlxlink -d mlx5_3",)),),
)
MESSAGES: list[Message] = [
    Clock(wall_seconds=1.8e9, monotonic_seconds=12.5, host="node-7", interval_seconds=1.0),
    Source(monotonic_seconds=12.5, name="gpus", available=False, reason="no NVIDIA driver"),
    Reading(
        monotonic_seconds=13.5,
        source="ports",
        values={"port/mlx5_3:1/symbol_errors": 2**63, "host/load/one_minute": 0.5},
    ),
    Event(monotonic_seconds=14.0, source="kernel", device="mlx5_3", text="Link down \x1b[2J \u00e9"),
    Warned(monotonic_seconds=15.0, since_seconds=13.5, finding=FINDING, series=("port/mlx5_3:1/symbol_errors",)),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: one.kind)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    line = encode(message)
    assert "\n" not in line
    assert decode(line) == message


def test_messages_are_read_wherever_the_stream_is_cut() -> None:
    stream = "".join(encode(one) + "\n" for one in MESSAGES).encode()
    for size in (1, 7, 1000):
        reader = MessageReader()
        found = [one for at in range(0, len(stream), size) for one in reader.feed(stream[at : at + size])]
        assert found == MESSAGES
        assert not reader.refused


def changed(index: int, **fields: Any) -> bytes:
    return json.dumps(json.loads(encode(MESSAGES[index])) | fields).encode()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"Traceback (most recent call last):", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"kind": "hello"}', "unknown kind of message"),
        (b'{"kind": ["clock"]}', "unknown kind of message"),
        (b'{"kind": "clock", "wall_seconds": NaN}', "no JSON"),
        (changed(0, wall_seconds=True), "wall_seconds is not a number"),
        (changed(0, wall_seconds=10**400), "wall_seconds is out of range"),
        (changed(0, host=None), "host is not text"),
        (changed(1, available="yes"), "available is neither true nor false"),
        (changed(2, values=[1]), "values is not an object"),
        (changed(2, values={f"gpu/{number}/power_watts": 1 for number in range(9000)}), "too many values in a reading"),
        (changed(3, text="x" * 5000), "text is too long"),
        (changed(3, text="\ud800"), "text is not text"),
        (changed(4, finding=None), "finding is not an object"),
        (changed(4, finding=FINDING.to_json() | {"severity": "fatal"}), "severity is none of critical, warning, info"),
        (changed(4, finding=FINDING.to_json() | {"rule": "<b>"}), "rule is not an id"),
        (changed(4, finding=FINDING.to_json() | {"evidence": ["x"]}), "evidence is not an object"),
        (changed(4, finding=FINDING.to_json() | {"hosts": ["h"] * 300}), "hosts is too long"),
        (changed(4, series=["no/such"]), "series of a warning is not in the table"),
    ],
)
def test_what_is_no_message_is_counted_by_its_reason_and_the_next_line_is_read(line: bytes, why: str) -> None:
    reader = MessageReader()
    found = list(reader.feed(line + b"\n" + encode(MESSAGES[0]).encode() + b"\n"))
    assert found == [MESSAGES[0]]
    assert reader.refused == {why: 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port/mlx5_3:1/symbol_errors", "5"),
        ("port/mlx5_3:1/symbol_errors", None),
        ("port/mlx5_3:1/made_up", 1),
        ("port//symbol_errors", 1),
        ("port/a b/symbol_errors", 1),
        ("port/" + "x" * 300 + "/symbol_errors", 1),
    ],
)
def test_a_value_that_is_none_is_missing_and_the_others_stay(name: str, value: object) -> None:
    reader = MessageReader()
    line = changed(2, values={name: value, "gpu/0/power_watts": 300})
    (reading,) = reader.feed(line + b"\n")
    assert isinstance(reading, Reading)
    assert reading.values == {"gpu/0/power_watts": 300}
    assert reader.refused.total() == 1


def test_a_line_without_an_end_costs_bounded_memory_and_one_refusal() -> None:
    reader = MessageReader()
    for _ in range(5):
        assert list(reader.feed(b"x" * MAX_LINE_BYTES)) == []
        assert len(reader._rest) <= MAX_LINE_BYTES
    assert list(reader.feed(b"rest of it\n" + encode(MESSAGES[1]).encode() + b"\n")) == [MESSAGES[1]]
    assert reader.refused == {"a line is too long": 1}


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(MESSAGES) - 1), st.data())
def test_damage_anywhere_is_a_message_or_a_refusal(index: int, data: st.DataObject) -> None:
    line = bytearray(encode(MESSAGES[index]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadMessageError):
        assert type(decode(bytes(line))) in get_args(Message)


def test_every_series_of_the_table_has_its_unit_in_its_name() -> None:
    endings = {
        "bytes": "_bytes",
        "seconds": "_seconds",
        "percent": "_percent",
        "watts": "_watts",
        "celsius": "_celsius",
        "megahertz": "_mhz",
        "gbit/s": "_gbit_per_s",
    }
    for (group, metric), series in SERIES.items():
        assert metric.endswith(endings.get(series.unit, "")), metric
        assert series_of(f"{group}/device/{metric}") is series


def test_a_device_may_be_a_folder() -> None:
    assert split_name("filesystem//home/x/free_bytes") == ("filesystem", "/home/x", "free_bytes")
    assert split_name("filesystem///free_bytes").device == "/"
