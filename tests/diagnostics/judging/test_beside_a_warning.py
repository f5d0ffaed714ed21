"""What a log with a warning does not show of its job's start or end is said beside the warning."""

from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.redaction import redact_diagnosis
from raybench.services.diagnose import exit_code_of

CASES = Path(__file__).parents[1] / "cases"
BY_2_10 = "host-identity-mismatch/shared_memory_switched_off_2_10"  # which prints no Init START
BY_2_18 = "rdma-disabled-by-env/emulated_net_socket_2_18_3"
BY_2_27 = "net-plugin-missing/named_none"  # which connects at the first collective
COMPLETE = "Init COMPLETE"


@pytest.mark.parametrize("case", [BY_2_10, BY_2_18, BY_2_27])
def test_a_start_that_is_not_shown_is_said_beside_a_slow_path(tmp_path: Path, case: str) -> None:
    lines = (CASES / case / "input.log").read_text().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if COMPLETE in line]
    log = tmp_path / "a.log"
    channel = next(number for number, line in enumerate(lines) if " via NET/" in line)
    cuts = {
        "before any": [line for line in lines if COMPLETE not in line][: max(channel, ends[0]) + 1],
        "one stops": [line for number, line in enumerate(lines) if number != ends[-1]],
    }
    for name, kept in cuts.items():
        log.write_text("".join(kept))
        diagnosis = diagnose_paths([log])
        assert diagnosis.verdict == "warning", name
        assert COMPLETE in diagnosis.not_shown or "completes it" in diagnosis.not_shown, name
        assert diagnosis.explanation.endswith(f"the log does not show that the job works: {diagnosis.not_shown}")
        assert (exit_code_of(diagnosis), exit_code_of(diagnosis, "critical")) == (1, 3)
        assert diagnosis.to_json()["not_shown"] == diagnosis.not_shown
        hosts = {row.host for row in diagnosis.ranks if row.host}
        assert not any(host in redact_diagnosis(diagnosis).not_shown for host in hosts)
    log.write_text("".join(lines))
    diagnosis = diagnose_paths([log])
    assert (diagnosis.verdict, diagnosis.not_shown, exit_code_of(diagnosis, "critical")) == ("warning", "", 0)
    assert diagnosis.explanation == diagnosis.findings[0].summary
    assert "not_shown" not in diagnosis.to_json()


def test_a_rank_that_stops_before_it_completes_is_not_fine_where_no_start_is_printed(tmp_path: Path) -> None:
    lines = (CASES / "log-truncated/whole/input.log").read_text().splitlines(keepends=True)
    old = [line for line in lines if "Init START" not in line]  # as releases before 2.18.3 write it
    last = max(number for number, line in enumerate(old) if COMPLETE in line)
    stopped = [line for number, line in enumerate(old) if number != last]
    alone = [line for line in old if line.startswith("gpu-a")]  # the other ranks are in files that were not given
    for kept, verdict in ((old, "ok"), (alone, "ok"), (stopped, "unknown")):
        (tmp_path / "a.log").write_text("".join(kept))
        diagnosis = diagnose_paths([tmp_path / "a.log"])
        assert diagnosis.verdict == verdict
    assert "1 of 2 processes that chose a network show no communicator" in diagnosis.explanation
