import pytest

from diagnostics.judging.distance import path_name


@pytest.mark.parametrize(
    ("number", "version", "name"),
    [
        ("2", (2, 5, 6), "PHB"),
        ("4", (2, 7, 8), "PHB"),
        ("5", (2, 11, 4), "PHB"),
        ("6", (2, 20, 5), "PHB"),
        ("7", (2, 26, 2), "PHB"),
        ("8", (2, 27, 3), "PHB"),
        ("6", (2, 27, 3), "PXN"),
        ("6", (2, 28, 3), "P2C"),
        ("SYS", None, "SYS"),
        ("8", None, None),
        ("99", (2, 20, 5), None),
        ("nonsense", (2, 20, 5), None),
    ],
)
def test_numbers_mean_other_paths_in_other_versions(
    number: str, version: tuple[int, int, int] | None, name: str | None
) -> None:
    assert path_name(number, version) == name
