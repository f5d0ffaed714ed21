"""Every path that only a GPU reaches is marked with the step that runs it, and docs say only what records prove."""

import re
from pathlib import Path

import pytest

from tests.gpu.document import document
from tests.gpu.paths import DOCUMENT, NO_STEP, PURE, ROOT, paths_of, sources, unmarked
from tests.gpu.record import ON_GPU, Record, StepRecord, records_in
from tests.gpu.table import STEPS

_MACHINE = {"gpus": [{"name": "NVIDIA H200", "uuid": "GPU-1"}]}
# A sentence that claims a measurement on a GPU, and the record that it names.
_CLAIM = re.compile(
    r"\b(?:measured|timed|reached|ran|proved)\b(?:[^.|;]|\.\d){0,60}\bon (?:a|an|one|two|four|eight|real) [^.|;]{0,40}"
    r"\b(?:H100|H200|A100|B200|L40S|GPU)s?\b",
    re.IGNORECASE,
)
_DOCUMENTS = ["README.md", *(f"docs/{path.name}" for path in sorted(DOCUMENT.parent.glob("*.md")) if path != DOCUMENT)]
_RECORD = re.compile(r"tests/gpu/records/([\w.-]+\.json)")
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-])")


def test_every_branch_and_call_of_a_gpu_is_marked() -> None:
    found = [f"{file}:{line}: {code}" for file, text in sources() if file not in PURE for line, code in unmarked(text)]
    assert found == [], "mark the line, or its function, with '# gpu: STEP' (tests/gpu/table.py), then make gpu-paths"


def test_every_marker_names_a_step() -> None:
    known = {step.id for step in STEPS} | set(NO_STEP)
    found = [path for file, text in sources() for path in paths_of(file, text)]
    assert len(found) > 50
    assert [(path.file, path.line, path.steps) for path in found if not set(path.steps) <= known] == []


def test_what_is_exempt_still_needs_it() -> None:
    texts = dict(sources())
    assert [file for file in PURE if not unmarked(texts[file])] == []
    used = {step for file, text in texts.items() for path in paths_of(file, text) for step in path.steps}
    assert set(NO_STEP) <= used


@pytest.mark.parametrize(
    "line",
    [
        "import torch; torch.cuda.synchronize()",
        "import torch; make = torch.cuda.Event",
        'if device.type == "cuda": pass',
        'kind = 1 if backend != "nccl" else 2',
        'importlib.import_module("bitsandbytes")',
        "if self._on_gpu: pass",
    ],
)
def test_what_is_not_marked_is_found(line: str) -> None:
    assert unmarked(f"{line}\n") != []
    assert unmarked(f"{line}  # gpu: machine\n") == []
    assert unmarked(f"def work():  # gpu: machine\n    {line}\n") == []
    assert unmarked(f"def other():  # gpu: machine\n    return 1\n\n\n{line}\n") != [], (
        "a marker covers its own function"
    )


def test_what_says_nothing_of_a_gpu_needs_no_marker() -> None:
    assert unmarked('kind = "cuda"\nname = {"cuda": 1}\nif kind == "cpu": pass\ncuda.synchronize()\n') == []
    assert unmarked("version = reading.torch.cuda or torch.cuda\n") == [], (
        "a field of something else that is named torch"
    )


def test_a_path_is_named_by_its_function_and_its_line() -> None:
    text = (
        "class A:\n    def b(self):\n        if x:  # gpu: machine, train-ddp\n            pass\n\n\ny = 1  # gpu: z\n"
    )
    found = [(path.name, path.line, path.steps) for path in paths_of("f.py", text)]
    assert found == [("A.b", 3, ("machine", "train-ddp")), ("module", 7, ("z",))]


def test_the_document_is_what_the_table_the_markers_and_the_records_say() -> None:
    records = {name: record for name, record in records_in().items() if record.is_of_gpu}
    assert DOCUMENT.read_text(encoding="utf-8") == document(records), "make gpu-paths"


def test_a_record_shortens_the_list() -> None:
    step = StepRecord(result="passed", seconds=1.0, at="", source="", devices=("cuda:0",), gpus=("GPU-1",))
    record = Record(schema="", label=ON_GPU, date="", machine=_MACHINE, versions={}, steps={"train-fp8": step})
    before, after = document({}), document({"h200.json": record})
    assert after.count("`h200.json`") == before.count(" train-fp8 | nothing yet |") + 1
    assert (before.count("nothing yet"), after.count("nothing yet")) != (0, before.count("nothing yet"))


def claims(text: str) -> list[str]:
    """Sentences that claim something measured on a GPU."""
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z*`])|\n\n|\n(?=\|)", text)  # a row of a table is one of its own
    return [" ".join(one.split()) for one in sentences if _CLAIM.search(" ".join(one.split()))]


def unproved(text: str, folder: Path) -> list[str]:
    """Claims that name no record of a GPU, or a number that the record does not have."""
    wrong = []
    for claim in claims(text):
        named = _RECORD.search(claim)
        path = folder / named[1] if named else None
        written = path.read_text(encoding="utf-8") if path and path.exists() else ""
        is_of_gpu = path is not None and path.exists() and records_in(folder)[path.name].is_of_gpu
        numbers = _NUMBER.findall(_RECORD.sub("", claim))
        if not is_of_gpu or any(f"{number}" not in written for number in numbers):
            wrong.append(claim)
    return wrong


@pytest.mark.parametrize("name", _DOCUMENTS)
def test_documents_quote_of_a_gpu_only_what_a_record_has(name: str) -> None:
    assert unproved((ROOT / name).read_text(encoding="utf-8"), ROOT / "tests/gpu/records") == []


def test_a_claim_without_a_record_is_found(tmp_path: Path) -> None:
    from tests.gpu.record import SCHEMA, write

    record = Record(schema=SCHEMA, label=ON_GPU, date="", machine=_MACHINE, versions={"busbw": "412.5"})
    write(tmp_path / "h200.json", record)
    write(tmp_path / "dry.json", Record(schema=SCHEMA, label="dry run, no GPU", date="", machine={}, versions={}))
    good = "All_reduce reached 412.5 GB/s on one H200 (tests/gpu/records/h200.json)."
    assert len(claims(good)) == 1
    assert unproved(good, tmp_path) == []
    for wrong in (
        "All_reduce reached 412.5 GB/s on one H200.",
        "All_reduce reached 999.5 GB/s on one H200 (tests/gpu/records/h200.json).",
        "All_reduce ran on a GPU (tests/gpu/records/dry.json).",
        "All_reduce ran on a GPU (tests/gpu/records/gone.json).",
    ):
        assert unproved(wrong, tmp_path) == [wrong]
    assert claims("One rank runs on each GPU. Without a GPU the CPU build of torch is taken.") == []
