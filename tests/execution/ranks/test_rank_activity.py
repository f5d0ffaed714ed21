"""What a look at the ranks may do to them: one that still measures is not stopped for it."""

import pytest

from raybench.execution.ranks import rank_activity


@pytest.mark.parametrize("whole", [False, True])
def test_ranks_that_still_measure_are_not_stopped_by_a_look(*, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    monkeypatch.setattr(rank_activity, "_WINDOW_SECONDS", 0.0)
    monkeypatch.setattr(rank_activity, "native_stacks", lambda states: called.append(states) or {})
    rank_activity.activities((), whole=whole)
    assert bool(called) == whole
