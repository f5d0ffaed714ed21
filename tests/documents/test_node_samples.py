"""The document of samples: columns are exact, what is damaged is named, and it is loaded as every other."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import raybench
from raybench.documents.reading import DocumentError
from raybench.documents.run.node_samples import NodeSamples, increase
from raybench.documents.run.sample_column import Column, ColumnError
from tests.timeline.streams import sampled, samples_of

NAME = "gpu/0/utilization_percent"
VALUES = st.one_of(st.none(), st.integers(-(2**59), 2**59), st.floats(-1e12, 1e12))


@given(st.lists(VALUES, max_size=60))
def test_a_column_is_what_was_put_into_it(values: list[float | None]) -> None:
    """Whole numbers exactly, others to the thousandth; a number too large for thousandths is missing."""
    column = Column.of_text(Column.of(values).to_text(), len(values))
    for value, found in zip(values, column.values(len(values)), strict=True):
        if found is None:
            assert value is None or column.scale == 1000
        else:
            assert value is not None
            assert math.isclose(found, value, abs_tol=0.0006, rel_tol=1e-15 if column.scale == 1 else 1e-14)


def test_counters_of_many_digits_are_exact() -> None:
    values = [2**60 + 3, 2**60 + 4, None, 7]
    assert Column.of_text(Column.of(values).to_text(), 4).values(4) == values


def test_what_a_counter_grew_by_is_known_across_a_new_beginning() -> None:
    assert increase([5, None, 9, 2, 3]) == 7
    assert increase([None, 5]) is None


def write(samples: NodeSamples, folder: Path, **changes: Any) -> Path:
    content = samples.to_json()
    content["nodes"][0] |= changes
    path = folder / "node_samples.json"
    path.write_text(json.dumps(content))
    return path


def test_it_is_loaded_and_is_a_table(tmp_path: Path) -> None:
    samples = samples_of(sampled("a", {NAME: [90, None, 91.25]}, begin=2.5))
    loaded = raybench.load(write(samples, tmp_path))
    assert loaded == samples
    table = loaded.to_dataframe()
    assert table.to_dict("list") == {
        "node": ["a", "a"], "seconds": [2.5, 4.5], "series": [NAME, NAME], "value": [90.0, 91.25],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("1;0;1;0+3;", "0 differences where its rows have 2"),
        ("1;0;1;0+3;eJw=", "cannot be unpacked|0 differences"),
        ("1;0;1;0+3;!!", "not a column"),
        ("1;0;0;0+4;", "rows up to 4, and its time axis 3"),
        ("1;0;0;2+1,0+1;", "not in order"),
        ("7;0;0;0+3;", "not a column"),
    ],
)
def test_a_damaged_column_is_named(column: str, why: str, tmp_path: Path) -> None:
    path = write(samples_of(sampled("a", {NAME: [1, 2, 3]})), tmp_path, series={NAME: column})
    with pytest.raises(DocumentError, match=f"is damaged: {NAME}: .*({why}).*nodes.0"):
        raybench.load(path)


def test_a_column_that_unpacks_to_more_than_its_rows_is_refused() -> None:
    long = Column.of(list(range(0, 3_000_000, 3))).to_text().replace("0+1000000", "0+3")
    with pytest.raises(ColumnError, match="differences where its rows have 2"):
        Column.of_text(long, 3)
