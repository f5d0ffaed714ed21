"""JSON of RAS and Inspector in any layout is read object by object, wherever a block ends."""

import io
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from diagnostics import engine
from diagnostics.engine import diagnose_paths
from diagnostics.inputs.json_objects import with_objects_joined
from diagnostics.inputs.reader import Batch, split_stream
from diagnostics.scanning import sifting

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


def many_ranks(layout: Mapping[str, Any], failed: int | None, count: int = 2048) -> str:
    """A report of so many ranks, of 540 bytes each where it is indented, else of 270 on one line."""
    content = json.loads((CASES / "ras-report" / "json_behind" / "input.log").read_text())
    ranks = content["communicators"][0]["ranks"]
    content["communicators"][0]["ranks"] = [
        {**ranks[0], "rank": rank, "status": {**ranks[0]["status"], "async_error": 6 if rank == failed else 0}}
        for rank in range(count)
    ]
    return json.dumps(content, **layout)


LAYOUTS = ({"indent": 2}, {"indent": None}, {"separators": (",", ":")})


@pytest.mark.parametrize(
    ("layout", "failed"),
    [*((layout, 1900) for layout in LAYOUTS), (LAYOUTS[0], None)],
    ids=["indented", "one line", "compact", "none that failed"],
)
def test_a_report_of_many_ranks_names_the_one_that_failed(
    tmp_path: Path, layout: Mapping[str, Any], failed: int | None
) -> None:
    (tmp_path / "ras.json").write_text(many_ranks(layout, failed) + "\nthe end\n")
    summaries = [finding.summary for finding in diagnose_paths([tmp_path]).findings]
    assert [text for text in summaries if "failed" in text] == (
        [f"RAS: NCCL failed on rank {failed}"] if failed is not None else []
    )


@pytest.mark.parametrize("layout", LAYOUTS, ids=["indented", "one line", "compact"])
@pytest.mark.parametrize("behind", [0, 8_000], ids=["at the end", "in the middle"])
def test_a_report_in_a_large_log_is_read_whole_wherever_the_log_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Mapping[str, Any], behind: int
) -> None:
    monkeypatch.setattr(engine, "MIN_BYTES", 2**10)
    monkeypatch.setattr(sifting, "MIN_BYTES", 2**10)
    monkeypatch.setattr(sifting, "PIECE_BYTES", 2**14)
    monkeypatch.setattr(sifting, "END_BYTES", 2**14)
    line = "n1:40:40 [0] NCCL INFO Channel {:02d}/64 :    0   1   2   3\n"
    log = tmp_path / "big.log"
    before = "".join(map(line.format, range(3000)))
    log.write_text(f"{before}{many_ranks(layout, 200, 400)}\n{''.join(map(line.format, range(behind)))}")
    for processes in (1, 2):
        monkeypatch.setattr(engine, "processes_to_use", lambda processes=processes: processes)
        diagnosis = diagnose_paths([log])
        assert "RAS: NCCL failed on rank 200" in [finding.summary for finding in diagnosis.findings]


def test_the_lines_of_a_document_on_one_long_line_are_counted_as_one() -> None:
    text = f"first\n{many_ranks({}, 3, 400)}\nthird\n".encode()
    for chunk_bytes in (999, 2**16, 2**20):
        parts = list(split_stream(io.BytesIO(text), "a.json", chunk_bytes))
        assert sum(batch.lines for batch in parts) == 3
        assert all(text[batch.place :].startswith(batch.block) for batch in parts)
        last = [number + batch.block.count(b"\n") for number, batch in numbered(iter(parts)) if b"third" in batch.block]
        assert last == [3]


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
