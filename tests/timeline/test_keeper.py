"""The keeper of samples: all that was said, in bounded memory; extremes and totals where rows are merged."""

import random

import pytest

from diagnostics.agent.messages import Clock, Event, Reading, Source
from raybench.documents.run.node_samples import increase
from raybench.timeline import keeper as module
from raybench.timeline.clock import ClockEstimate
from raybench.timeline.keeper import SampleKeeper
from tests.timeline.streams import kept

RESIDENT, LIMIT = "process/1/resident_bytes", "gpu/0/power_limit_watts"
ERRORS, USED = "port/mlx5_0:1/symbol_errors", "gpu/0/utilization_percent"


def new_keeper() -> SampleKeeper:
    keeper = SampleKeeper(run_id="run", started_at="2026-11-23T02:00:00+00:00", start_seconds=50.0)
    keeper.machine("a", ("a",))
    return keeper


def test_every_reading_is_kept_as_it_was_while_there_is_room() -> None:
    node = kept({ERRORS: [0, 0, 3, 3], USED: [97.5, None, 98, 12]})
    assert (node.rows, node.merged, node.seconds) == (4, 1, (0.0, 1.0, 2.0, 3.0))
    assert node.values(ERRORS) == [0, 0, 3, 3]
    assert node.values(USED) == [97.5, None, 98, 12], "a series that could not be read is missing, never 0"


@pytest.mark.parametrize("limit", [{"most_bytes": 5000}, {"most_text": 4000}])
def test_merged_rows_keep_extremes_totals_and_what_is_missing(limit: dict[str, int]) -> None:
    generator = random.Random(3)
    total = 0
    errors = [total := total + generator.randrange(10**6) for _ in range(3000)]
    used: list[float | None] = [generator.randrange(60, 90) for _ in range(3000)]
    used[1234], used[2345] = 3, 100
    used[500:900] = [None] * 400
    node = kept({ERRORS: errors, USED: used}, **limit)
    assert node.merged >= 4
    assert node.resolution_seconds == node.merged
    assert node.rows <= 3000 / node.merged + 2
    assert increase(node.values(ERRORS)) == pytest.approx(errors[-1] - errors[0], abs=10**6 * node.merged * 2)
    assert node.values(ERRORS)[-1] == errors[-1]
    known = [value for value in node.values(USED) if value is not None]
    assert (min(known), max(known)) == (3, 100)
    for at, value in zip(node.seconds, node.values(USED), strict=True):
        if 500 + 2 * node.merged < at < 900 - 2 * node.merged:
            assert value is None
    assert len("".join(node.series.values())) <= limit.get("most_text", 10**9)


def test_what_was_constant_while_rows_were_merged_may_change_afterwards() -> None:
    source = random.Random(5)
    noise: list[float | None] = [source.randrange(2**40) for _ in range(2000)]
    limit: list[float | None] = [700.5] * 1500 + [650.25] * 500
    node = kept({RESIDENT: noise, LIMIT: limit}, most_bytes=3000)
    assert node.merged >= 4
    found = node.values(LIMIT)
    changed = next(row for row, value in enumerate(found) if value == 650.25)
    assert set(found[:changed]) == {700.5}
    assert set(found[changed + 2 :]) == {650.25}
    assert node.seconds[changed] == pytest.approx(1500, abs=4 * node.merged)


def test_memory_and_text_stay_bounded_for_as_long_as_it_runs() -> None:
    generator = random.Random(4)
    series = {f"process/{pid}/resident_bytes": [generator.randrange(2**40) for _ in range(4000)] for pid in range(30)}
    node = kept(series, most_bytes=100_000, most_text=50_000)
    assert node.seconds[-1] == 3999
    assert sum(map(len, node.series.values())) <= 50_000


def test_readings_of_a_moment_share_a_row_and_those_of_the_past_are_left_out() -> None:
    keeper = new_keeper()
    keeper.take("a", Clock(wall_seconds=1e9, monotonic_seconds=7.0, host="a", interval_seconds=1.0), 60.0)
    keeper.take("a", Reading(monotonic_seconds=7.0, source="ports", values={ERRORS: 1}), 60.0)
    keeper.take("a", Reading(monotonic_seconds=7.1, source="gpus", values={USED: 50}), 60.1)
    keeper.take("a", Reading(monotonic_seconds=8.0, source="ports", values={ERRORS: 2}), 61.0)
    keeper.take("a", Reading(monotonic_seconds=3.0, source="gpus", values={USED: 99}), 61.0)
    samples = keeper.samples()
    assert samples is not None
    node = samples.nodes[0]
    assert (node.values(ERRORS), node.values(USED)) == ([1, 2], [50, None])
    assert node.left_out == {"readings from before the last": 1}


def test_sources_and_events_are_kept_and_what_is_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EVENTS", 2)
    monkeypatch.setattr(module, "MOST_SERIES", 1)
    keeper = new_keeper()
    keeper.take("a", Source(monotonic_seconds=1.0, name="nvml", available=False, reason="no driver"), 51.0)
    for number in range(3):
        keeper.take("a", Event(monotonic_seconds=2.0 + number, source="kernel", device="", text=f"Xid {number}"), 53.0)
    keeper.take("a", Reading(monotonic_seconds=2.0, source="x", values={ERRORS: 1e300, USED: 4}), 60.0)
    samples = keeper.samples()
    assert samples is not None
    node = samples.nodes[0]
    assert [one.reason for one in node.sources] == ["no driver"]
    assert [one.text for one in node.events] == ["Xid 0", "Xid 1"]
    assert node.left_out == {"events": 1, "series": 1, "values": 1}


def test_no_agent_that_said_anything_is_no_document() -> None:
    assert new_keeper().samples() is None


def test_a_clock_is_between_a_question_and_its_answer_and_never_guessed() -> None:
    clock = ClockEstimate(start_seconds=1000.0)
    assert clock.clock().bound_seconds is None
    clock.heard(there_seconds=5.0, heard_seconds=1007.5)
    assert (clock.clock().offset_seconds, clock.clock().bound_seconds) == (2.5, None)
    clock.answered(asked_seconds=1009.0, there_seconds=7.0, answered_seconds=1009.2)
    clock.answered(asked_seconds=1019.0, there_seconds=17.1, answered_seconds=1019.3)
    found = clock.clock()
    assert found.offset_seconds == pytest.approx(2.1)  # 1002.0 to 1002.2
    assert found.bound_seconds == pytest.approx(0.1)
    clock.same()
    assert (clock.clock().offset_seconds, clock.clock().bound_seconds) == (-1000.0, 0.0)


def test_sources_that_are_made_up_are_bounded() -> None:
    keeper = new_keeper()
    for number in range(1000):
        keeper.take("a", Source(monotonic_seconds=60.0, name=f"source {number}", available=True), 60.0)
    samples = keeper.samples()
    assert samples is not None
    assert len(samples.nodes[0].sources) == 128
    assert samples.nodes[0].left_out == {"sources": 872}


def test_a_clock_that_drifts_by_more_than_a_round_trip_has_a_bound_that_holds_all_it_was() -> None:
    clock = ClockEstimate(start_seconds=0.0)
    clock.answered(asked_seconds=10.0, there_seconds=10.001, answered_seconds=10.002)
    clock.answered(asked_seconds=5000.0, there_seconds=5000.251, answered_seconds=5000.002)
    found = clock.clock()
    assert found.bound_seconds == pytest.approx(0.125, abs=0.01)
    assert found.offset_seconds == pytest.approx(-0.125, abs=0.002)
    assert "drifted" in found.basis
