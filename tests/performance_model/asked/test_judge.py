"""Rows that were asked blind, judged."""

import pytest

from tests.performance_model.asked.judge import judged, options_of, rows, summary

ROW = {
    "id": "row",
    "source": "somebody",
    "program": "nanoGPT, 2026",
    "options": ["--model", "gpt2", "--world-size", "1", "--gpu", "A100", "--batch-size", "12"],
    "published": {"tokens_per_second": 140000.0, "memory_gib": 20.0, "memory_is": "allocated"},
}


def test_a_row_is_inside_or_not_by_what_was_published() -> None:
    one, slow = judged(ROW), judged(ROW | {"published": {"tokens_per_second": 1000.0}})
    assert (one.inside, slow.inside) == (True, False)
    assert slow.seconds is not None
    assert one.seconds is not None
    assert slow.seconds == pytest.approx(140 * one.seconds)
    assert slow.memory is None
    assert one.memory is not None


def test_what_ran_out_of_memory_is_wrong_where_it_is_told_to_fit() -> None:
    found = [judged(ROW | {"published": {"fits": False}}), judged(ROW)]
    assert "out of memory, told to fit: 1 of 1" in summary(found)
    assert "ran, told not to fit: 0 of 1" in summary(found)


def test_a_verdict_that_is_blind_no_longer_is_not_counted() -> None:
    one = judged(ROW | {"published": {"fits": False}, "verdict": "../published/unsaid.json"})
    assert (one.said, one.fits) == (True, None)
    assert "out of memory, told to fit: 0 of 0" in summary([judged(ROW), one])


def test_a_row_s_program_is_said_where_it_is_known() -> None:
    assert options_of(ROW, of_program=True)[-2:] == ["--program", "nanogpt"]
    assert options_of(ROW | {"program": "own loop"}, of_program=True) == ROW["options"]


def test_a_refused_row_says_why_and_counts_as_nothing_else() -> None:
    one = judged(ROW | {"options": ["--model", "no-such-model"]})
    assert "no-such-model" in one.refused
    assert (one.inside, one.memory, one.fits) == (None, None, None)


def test_every_row_has_what_is_judged() -> None:
    asked = rows()
    assert len({row["id"] for row in asked}) == len(asked) > 100
    for row in asked:
        assert set(row["published"]) & {"tokens_per_second", "step_seconds", "memory_gib", "fits"}, row["id"]
        assert row["where"], row["id"]
