"""JSON of RAS and Inspector in any layout is read object by object, wherever a block ends."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.inputs.json_objects import with_objects_joined
from diagnostics.inputs.reader import Batch

CASES = Path(__file__).parents[1] / "cases"


def batches(text: str, lines_of_block: int) -> Iterator[Batch]:
    lines, place = text.splitlines(), 0
    for start in range(0, len(lines), lines_of_block):
        block = "\n".join(lines[start : start + lines_of_block]).encode()
        yield Batch(file="a.json", block=block, place=place, first=start == 0)
        place += len(block) + 1


def numbered(given: Iterator[Batch]) -> Iterator[tuple[int, Batch]]:
    """The batches of a file, each object on a line, with the number of the first line of each, as a reader counts."""
    following = 1
    for batch in with_objects_joined(given):
        number = following + (batch.skipped or 0)
        yield number, batch
        following = number + batch.block.count(b"\n") + 1


@pytest.mark.parametrize("lines_of_block", [1, 2, 7, 50, 10_000])
def test_each_object_is_one_line_with_the_number_of_its_first(lines_of_block: int) -> None:
    text = (CASES / "ras-report" / "json_behind" / "input.log").read_text()
    numbers = [number for number, line in enumerate(text.splitlines(), 1) if line == "        {"]
    joined = [one for one in numbered(batches(text, lines_of_block)) if b'"nvml_dev"' in one[1].block]
    assert [number for number, _ in joined] == numbers
    assert [json.loads(batch.block)["rank"] for _, batch in joined] == list(range(8))


def test_all_layouts_give_the_same_findings(tmp_path: Path) -> None:
    content = json.loads((CASES / "ras-report" / "json_unresponsive" / "input.log").read_text())
    for number, layout in enumerate(({"indent": 2}, {"indent": "\t"}, {"indent": None}, {"separators": (",", ":")})):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(content, **layout))
        assert "rank 7 (process 4107" in diagnose_paths([file]).findings[0].summary


def test_a_report_of_many_ranks_names_the_one_that_failed(tmp_path: Path) -> None:
    content = json.loads((CASES / "ras-report" / "json_behind" / "input.log").read_text())
    ranks = content["communicators"][0]["ranks"]
    content["communicators"][0]["ranks"] = [
        {**ranks[0], "rank": rank, "status": {**ranks[0]["status"], "async_error": 6 if rank == 1900 else 0}}
        for rank in range(2048)
    ]
    (tmp_path / "ras.json").write_text(json.dumps(content, indent=2))
    assert diagnose_paths([tmp_path]).findings[0].summary == "RAS: NCCL failed on rank 1900"


def test_other_text_stays_as_it_is() -> None:
    random_ = random.Random(1)
    text = "\n".join("".join(random_.choices('{}" ,:ab\\', k=30)) for _ in range(300))
    given = list(batches(text, 20))
    assert list(with_objects_joined(iter(given))) == given


@pytest.mark.parametrize("lines_of_block", [7, 50])
def test_objects_behind_a_long_log_are_joined_with_their_numbers(lines_of_block: int) -> None:
    log = [f"n1:40:40 [0] NCCL INFO Channel {number:02d}/64 :    0   1   2   3" for number in range(400)]
    json_behind = (CASES / "ras-report" / "json_behind" / "input.log").read_text().splitlines()
    text = "\n".join([*log, *json_behind])
    numbers = [number for number, line in enumerate(text.splitlines(), 1) if line == "        {"]
    joined = [one for one in numbered(batches(text, lines_of_block)) if b'"nvml_dev"' in one[1].block]
    assert [number for number, _ in joined] == numbers
