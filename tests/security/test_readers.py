"""Whatever was done to what others write, its reader takes it or refuses it in its own words: no traceback, no hang."""

import random
from typing import Any

import pytest

from raybench.preflight.fabric.answers import WRONG_END, WRONG_RESULTS
from raybench.preflight.fabric.conduct import Reply, final_report, plan_confirmation, plan_scan
from raybench.preflight.fabric.settings import FabricSettings
from tests.preflight.fabric.test_conduct import TIMES, Results, hosts, run
from tests.security.readers import HOSTILE, READERS, damaged, fault_of, packed, seeds_of

SETTINGS = FabricSettings(scope="all")


@pytest.mark.parametrize("name", READERS)
def test_what_is_whole_is_read(name: str) -> None:
    taken = [READERS[name].read(packed(name, seed)) for seed in seeds_of(name)]
    assert all(taken) if not isinstance(seeds_of(name)[0], bytes) else any(taken)  # a recorded failure has no figure


@pytest.mark.parametrize("name", READERS)
def test_what_is_damaged_is_read_or_refused(name: str) -> None:
    chance = random.Random(23)
    inputs = [*HOSTILE, *(damaged(name, chance) for _ in range(100))]
    assert not {fault for data in inputs if (fault := fault_of(name, data)) is not None}


def report(replies: list[Reply], results: object) -> dict[str, Any]:
    return final_report(replies, SETTINGS, results, run_id="r", times=TIMES).to_json()


def verdicts(made: dict[str, Any]) -> dict[str, str]:
    return {host["name"]: host["verdict"] for host in made["hosts"]}


@pytest.mark.parametrize(
    "end", [[1], {"devices": 0.5}, {"devices": [{"name": "mlx5_0"}]}, {"control_port": "many"}, "x"]
)
def test_a_host_that_describes_itself_in_another_form_is_out_of_the_fabric_test_alone(end: Any) -> None:
    replies, results = [*hosts(3), Reply(name="odd", end=end, problem="", options={})], {}
    run(plan_scan(replies, SETTINGS, token="t", forks=5), lambda *_: 392.0, results)
    made = report(replies, results)
    assert verdicts(made) == {"h0": "pass", "h1": "pass", "h2": "pass", "odd": "error"}
    assert made["status"] == "partial"
    assert WRONG_END in str(made)


@pytest.mark.parametrize(
    "change",
    [
        {"peer": "h9"},
        {"peer": "h1"},
        {"key": "mlx5_9"},
        {"role": "both"},
        {"round": -1},
        {"round": 1e9},
        {"counters": {"symbol_error": 5}},
        {"output": ["392"]},
    ],
)
def test_results_that_are_not_of_the_test_lose_their_host_alone(change: dict[str, Any]) -> None:
    replies, results = hosts(4), Results()
    run(plan_scan(replies, SETTINGS, token="t", forks=5), lambda *_: 392.0, results)
    results["h1"][0] |= change
    assert not plan_confirmation(replies, SETTINGS, results, done=3, token="t", forks=5).work
    made = report(replies, results)
    assert verdicts(made) == {"h0": "pass", "h1": "error", "h2": "pass", "h3": "pass"}
    assert WRONG_RESULTS in str(made)
