"""Whatever was done to what others write, its reader takes it or refuses it in its own words: no traceback, no hang."""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from raybench.documents.loading import document_in
from raybench.documents.reading import json_of
from raybench.preflight.fabric.answers import WRONG_END, WRONG_RESULTS
from raybench.preflight.fabric.conduct import Reply, final_report, plan_confirmation, plan_scan
from raybench.preflight.fabric.settings import FabricSettings
from tests.documents.mutation import REPORTS, SAMPLES
from tests.preflight.fabric.test_conduct import TIMES, Results, hosts, run
from tests.security.readers import HOSTILE, READERS, damaged, fault_of, packed, seeds_of
from tests.security.reading_sites import WITHOUT_TARGET, reading_sites

SETTINGS = FabricSettings(scope="all")


_MOST_WHOLE = 60  # inputs of a reader, evenly of all that there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What each reader made of whole inputs, and the functions that ran meanwhile: file and first line."""

    taken: dict[str, list[object]]
    ran: frozenset[tuple[str, int]]


@pytest.fixture(scope="module")
def whole() -> Whole:
    taken: dict[str, list[object]] = {}
    ran: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            ran.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    inputs = {name: [packed(name, seed) for seed in _chosen(seeds_of(name))] for name in READERS}
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for name, all_of_it in inputs.items():
            taken[name] = [READERS[name].read(data) for data in all_of_it]
        for path in (*SAMPLES[:1], *(one for one in REPORTS if one.name.startswith("node-samples"))):
            document_in(json_of(path.read_bytes(), "it"), "it")  # with a fuzzer of its own, tests.documents.mutation
    finally:
        sys.setprofile(before)
    return Whole(taken=taken, ran=frozenset(ran))


def _chosen(seeds: Sequence[Any]) -> Sequence[Any]:
    return seeds[:: -(-len(seeds) // _MOST_WHOLE)]


@pytest.mark.parametrize("name", READERS)
def test_what_is_whole_is_read(name: str, whole: Whole) -> None:
    taken = whole.taken[name]
    assert all(taken) if not isinstance(seeds_of(name)[0], bytes) else any(taken)  # a recorded failure has no figure


@pytest.mark.parametrize("name", READERS)
def test_what_is_damaged_is_read_or_refused(name: str) -> None:
    chance = random.Random(23)
    inputs = [*HOSTILE, *(damaged(name, chance) for _ in range(READERS[name].inputs_in_ci))]
    assert not {fault for data in inputs if (fault := fault_of(name, data)) is not None}


def test_every_function_that_reads_what_others_wrote_is_reached_by_a_reader(whole: Whole) -> None:
    """A new one is given a line in ``READERS`` that reaches it, or one that says why it needs none."""
    sites = reading_sites()
    assert [site for site in sites if sites[site] not in whole.ran and site not in WITHOUT_TARGET] == []
    assert [site for site in WITHOUT_TARGET if site not in sites] == [], "those have gone"


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("def a(data): return json.loads(data)", True),
        ("def a(data): return _DECODER.decode(data)", True),
        ("def a(file): return pickle.load(file)", True),
        ("def parse_thing(text: str): return text.split()", True),
        ("def a(data): return data.decode('utf-8', 'replace')", False),
        ("def a(one): return one.load('idle')", False),
        ("def a(text: str): return text.upper()", False),
    ],
)
def test_what_reads_is_found_by_what_it_calls(tmp_path: Path, source: str, *, reads: bool) -> None:
    (tmp_path / "raybench").mkdir()
    (tmp_path / "raybench/one.py").write_text(source)
    assert bool(reading_sites(("raybench",), tmp_path)) == reads


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
