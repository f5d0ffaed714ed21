"""Logs of public threads: what they were labelled before any diagnosis of them was seen."""

import pytest

from tests.diagnostics.threads import FOLDER, ThreadLog, diagnose, read_logs, score

LOGS = [log for file in sorted(FOLDER.glob("*.txt")) for log in read_logs(file)]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_a_log_is_diagnosed_as_its_thread_resolved_it(log: ThreadLog) -> None:
    assert score(log, diagnose(log.text)).problems == []


def test_names_are_told_apart() -> None:
    assert len({log.name for log in LOGS}) == len(LOGS)
