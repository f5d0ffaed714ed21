"""Whatever was done to a document, its loader reads it or says in one line what is wrong with it, and where."""

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from raybench.benchmarks.checkpoint.manifest import CheckpointError, Manifest, Part, Tensor, decode
from raybench.config import load_config
from raybench.documents.reading import DocumentError, read_document
from raybench.documents.study.plan import Study, Variant, VariantFacts
from raybench.errors import RaybenchError, UsageError
from raybench.hosts.own_cluster import read_record
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.results import links_in_results, measured_settings
from raybench.services.run import baseline_at
from raybench.studies.folder import StudyFolder
from tests.documents.mutation import mutated
from tests.reports.sample import run_result, sweep
from tests.studies.sample import run_result as training_result
from tests.studies.sample import training_point

STUDY = Study(
    kind="scaling",
    workload=("train",),
    variants=(
        Variant(name="1", arguments=("--nodes", "1"), facts=VariantFacts(nodes=1, modes=("weak",))),
        Variant(name="2", arguments=("--nodes", "2"), facts=VariantFacts(nodes=2, modes=("weak",))),
    ),
    repeats=1,
    seed=7,
)
RESULT: dict[str, Any] = json.loads(msgspec.json.encode(run_result(sweep("all_reduce")).to_json()))
TRAINED = {"schema": "raybench.result/1", "run_id": "a"} | training_result([training_point(0.1)])
for _point in RESULT["benchmarks"][0]["points"]:
    _point |= {"samples_seconds": _point["samples_seconds"][:1], "block_iterations": [[1]]}
RESULT["benchmarks"][0]["points"] = RESULT["benchmarks"][0]["points"][-3:]
PLAN: dict[str, Any] = json.loads(msgspec.json.encode(STUDY.to_json()))
RECORD = {"schema": "raybench.cluster/1", "address": "a:1", "token_path": "/x", "inventory": ["a"], "hosts": ["b"]}
REPORT = {"schema": "raybench.preflight/1", "hosts": [{"name": "a", "checks": [{"check": "x", "verdict": "pass"}]}]}
CONFIG = {"nodes": 2, "suite": "all_reduce", "sizes": "1K", "env": ["A=b"], "training": {"model": "tiny", "steps": 5}}


def study_plan(path: Path) -> None:
    StudyFolder.open(path).study()


def trial(path: Path) -> None:
    """The result of a trial that cannot be read is one that is missing, and says so."""
    folder = StudyFolder(path=path.parents[3])
    (outcome, *_) = folder.outcomes(STUDY)
    assert outcome.measured or outcome.reason


def measured_by(path: Path) -> EstimateOptions:
    """A question that a run may answer."""
    return EstimateOptions(model="llama-8b", world_size=8, result_file=(str(path),))


# Each loader with a whole document, and the place below a folder where it looks for it.
LOADERS: dict[str, tuple[Any, str, Callable[[Path], object]]] = {
    "baseline": (RESULT, "result.json", lambda path: baseline_at(str(path))),
    "estimate --result": (RESULT, "result.json", lambda path: links_in_results(measured_by(path))),
    "estimate --result of a training": (TRAINED, "result.json", lambda path: measured_settings(measured_by(path))),
    "study plan": (PLAN, "plan.json", study_plan),
    "trial": (TRAINED, f"s/trials/{STUDY.trials()[0].folder}/run/result.json", trial),
    "record of a cluster": (RECORD, "cluster.json", read_record),
    "preflight": (REPORT, "preflight.json", lambda path: read_document(path, "raybench.preflight/1", "the report")),
}


def loaded(load: Callable[[Path], object], path: Path, data: bytes) -> str | None:
    """What the loader says of the data; None where it takes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        load(path)
    except RaybenchError as error:
        caught = error
    else:
        return None
    assert caught.exit_code == 2
    assert "\n" not in str(caught)
    return str(caught)


@pytest.mark.parametrize("kind", LOADERS)
def test_a_damaged_document_is_one_clear_line(kind: str, tmp_path: Path) -> None:
    document, name, load = LOADERS[kind]
    if kind == "trial":
        loaded(study_plan, tmp_path / "s" / "plan.json", json.dumps(PLAN).encode())
    assert loaded(load, tmp_path / name, json.dumps(document).encode()) is None
    chance = random.Random(17)
    said = [loaded(load, tmp_path / name, mutated(document, chance)) for _ in range(120)]
    assert kind == "trial" or any(said)


@pytest.mark.parametrize("kind", [kind for kind in LOADERS if kind != "trial"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is no JSON, or damaged"),
        (b"[" * 10**5, "is no JSON, or damaged"),
        (b'{"a":' * 10**5, "is no JSON, or damaged"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "more than 60 levels deep"),
        (b'{"schema": NaN}', "is no JSON, or damaged"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "damaged"),
        (b"\x80\x04\x95", "is no JSON, or damaged"),
        (b'{"a": "\xff"}', "is no JSON, or damaged"),
        (b"[]", "it has no schema"),
        (b'{"schema": ["raybench.result/1"]}', "its schema is"),
        (b'{"schema": "raybench.other/1"}', "its schema is 'raybench.other/1'"),
    ],
)
def test_what_is_no_document_says_so(kind: str, data: bytes, words: str, tmp_path: Path) -> None:
    _, name, load = LOADERS[kind]
    said = loaded(load, tmp_path / name, data)
    assert said is not None
    assert words in said
    assert str(tmp_path / name) in said


@pytest.mark.parametrize("kind", [kind for kind in LOADERS if kind != "trial"])
@pytest.mark.parametrize(("version", "words"), [(2, "newer raybench"), (0, "older raybench")])
def test_another_version_is_refused(kind: str, version: int, words: str, tmp_path: Path) -> None:
    document, name, load = LOADERS[kind]
    other = document | {"schema": document["schema"].replace("/1", f"/{version}")}
    said = loaded(load, tmp_path / name, json.dumps(other).encode())
    assert said is not None
    assert words in said
    assert document["schema"] in said


def test_a_wrong_type_is_named_with_its_place(tmp_path: Path) -> None:
    wrong = copy.deepcopy(RESULT)
    wrong["benchmarks"][0]["points"][1]["message_bytes"] = "many"
    said = loaded(lambda path: baseline_at(str(path)), tmp_path / "result.json", json.dumps(wrong).encode())
    assert said is not None
    assert "Expected `int`, got `str` - at `$.benchmarks[0].points[1].message_bytes`" in said


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "Is a directory"), (tmp_path / "none", "No such file"), (Path("a\0b"), "null")):
        with pytest.raises(DocumentError, match=words):
            read_document(path, "raybench.result/1", "the result")


def test_a_damaged_configuration_is_one_clear_line(tmp_path: Path) -> None:
    chance = random.Random(5)
    path = tmp_path / "run.yml"
    texts = [b"[" * 5000, b"nodes: 1" + b"0" * 5000, b"a: &a [*a]", b"\xff", b"nodes: !!python/object:os.system x"]
    whole = yaml.safe_dump(CONFIG).encode()
    for _ in range(25):
        data = bytearray(whole)
        data[chance.randrange(len(data))] = chance.randrange(256)
        texts.append(bytes(data))
    for text in texts:
        path.write_bytes(text)
        try:
            load_config(str(path), {})
        except UsageError as error:
            assert "Traceback" not in str(error)


def test_a_damaged_manifest_of_a_checkpoint_is_refused() -> None:
    part = Part(file="0.bin", start=0, length=16, offsets=(0,), sizes=(4,), crc32=0)
    whole = Manifest(tensors={"w": Tensor(dtype="float32", shape=(4,), parts=(part,))}, compression="none").encode()
    decode(whole, "there")
    chance = random.Random(3)
    for _ in range(500):
        data = bytearray(whole)
        data[chance.randrange(len(data))] = chance.randrange(256)
        if bytes(data) != whole:
            try:
                decode(bytes(data), "there")
            except CheckpointError as error:
                assert "\n" not in str(error)
