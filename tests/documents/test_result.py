"""A result is written and loaded by one module: what earlier versions wrote, what later ones add, what is damaged."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import raybench
from raybench.documents.reading import DocumentError
from raybench.documents.run.result import RunResult
from tests.documents.mutation import SAMPLES, mutated, outcome
from tests.reports.gallery import checkpoint_run, memory_run, training_run
from tests.reports.sample import run_result

RUNS = {"collective": run_result, "training": training_run, "memory": memory_run, "checkpoint": checkpoint_run}


def content_of(run: RunResult) -> Any:
    return json.loads(msgspec.json.encode(run.to_json()))


def differences(before: Any, after: Any, place: str = "$") -> list[str]:
    """Places at which what was stored is lost or has changed by more than rounding."""
    if isinstance(before, dict) and isinstance(after, dict):
        lost = [f"{place}.{key}" for key in before.keys() - after.keys()]
        return lost + [one for key in before.keys() & after.keys()
                       for one in differences(before[key], after[key], f"{place}.{key}")]  # fmt: skip
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [one for index, pair in enumerate(pairs) for one in differences(*pair, f"{place}[{index}]")]
    alike = before == after or (isinstance(before, float) and after == pytest.approx(before, rel=1e-12))
    return [] if alike else [f"{place}: {before} became {after}"]


@pytest.mark.parametrize("kind", RUNS)
def test_what_is_written_is_loaded_as_it_was(kind: str) -> None:
    run = RUNS[kind]()
    loaded = RunResult.of_json(content_of(run), "it")
    assert differences(content_of(run), content_of(loaded)) == []
    assert loaded.conclusion == run.conclusion
    assert [one.parameters for one in loaded.benchmarks] == [one.parameters for one in run.benchmarks]
    for ours, theirs in zip(run.benchmarks, loaded.benchmarks, strict=True):
        assert [point.launches for point in theirs.points] == [point.launches for point in ours.points]
        assert [type(point) for point in theirs.workload] == [type(point) for point in ours.workload]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_results_of_earlier_commits_load_and_lose_nothing(path: Path) -> None:
    run = raybench.load(path)
    assert run.conclusion.verdict == "ok"
    assert run.benchmarks[0].is_measured
    assert differences(json.loads(path.read_bytes()), content_of(run)) == []


def test_the_first_results_have_their_bandwidth() -> None:
    run = raybench.load(next(path for path in SAMPLES if path.stem.startswith("collective")))
    stored = json.loads(SAMPLES[1].read_bytes())["benchmarks"][0]["points"][-1]
    point = run.benchmarks[0].points[-1]
    assert point.busbw_gb_per_s == pytest.approx(stored["busbw_gb_per_s"])
    assert point.interval_seconds == tuple(stored["ci95_seconds"])
    assert run.cluster.node_of_rank(1).rank_pids.keys() == {1}


def test_keys_of_a_later_raybench_are_kept_at_every_level(tmp_path: Path) -> None:
    content = content_of(run_result())
    point = content["benchmarks"][0]["points"][1]
    places = [content, content["cluster"]["nodes"][0], content["benchmarks"][0], point, content["checks"][0]]
    for number, place in enumerate(places):
        place["later"] = {"number": number}
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    assert content_of(raybench.load(tmp_path)) == content


@pytest.mark.parametrize(
    ("kind", "keys", "value", "why"),
    [
        ("collective", ("points", 2, "samples_seconds"), "x", "Expected `array`, got `str`"),
        ("collective", ("points", 1, "samples_seconds"), [0.1], "1 samples in blocks of 100"),
        ("collective", ("points", 0, "rank_seconds", 1), -1, "Expected `float` >= 0.0"),
        ("collective", ("kind",), 3, "Expected `str`, got `int`"),
        ("training", ("points", 0, "loss", "steps"), {}, "Expected `array`, got `object`"),
        ("training", ("points", 0, "communication", "operations"), 3, "Expected `object`, got `int`"),
        ("memory", ("points", 0, "batch_sizes", 1, "peak_bytes"), None, "Expected `int`, got `null`"),
        ("checkpoint", ("points", 1, "samples_seconds", 0), 0, "Expected `float` > 0.0"),
    ],
)
def test_damage_is_named_with_its_place(kind: str, keys: tuple[Any, ...], value: Any, why: str) -> None:
    content = content_of(RUNS[kind]())
    owner = content["benchmarks"][0]
    for key in keys[:-1]:
        owner = owner[key]
    owner[keys[-1]] = value
    with pytest.raises(DocumentError) as caught:
        RunResult.of_json(content, "the result runs/a/result.json")
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    found = f"the result runs/a/result.json is damaged: {why} - at `$.benchmarks[0]{place}`"
    assert str(caught.value) == found
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("strange", [[], "much", {"a": 1}, [1e308]])
def test_a_size_that_is_no_number_is_damage_and_no_traceback_of_a_report(strange: Any) -> None:
    content = content_of(training_run())
    content["benchmarks"][0]["points"][0]["memory"]["peak_bytes"] = strange
    with pytest.raises(
        DocumentError, match=r"memory\.peak_bytes is not a number - at `\$\.benchmarks\[0\]\.\+?points\[0\]`"
    ):
        RunResult.of_json(content, "it")


def test_a_newer_version_and_another_document_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for schema, words in (("raybench.result/2", "newer raybench"), ("raybench.estimate/1", "is no raybench.result/1")):
        path.write_text(json.dumps(content_of(run_result()) | {"schema": schema}))
        with pytest.raises(DocumentError, match=words) as caught:
            RunResult.read(path, "the result")
        assert caught.value.exit_code == 2


def test_mutated_results_are_refused_in_a_line_or_can_be_used() -> None:
    chance = random.Random(11)
    documents = [json.loads(path.read_bytes()) for path in SAMPLES]
    found = {outcome(mutated(documents[number % len(documents)], chance)) for number in range(300)}
    assert found == {"refused", "loaded"}
