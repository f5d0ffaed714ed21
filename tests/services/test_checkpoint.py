"""Is a kept checkpoint whole? What is damaged in which way is in tests/benchmarks/checkpoint."""

from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.services.checkpoint import check_checkpoint


def test_none_is_no_damage_and_one_that_was_only_begun_is(tmp_path: Path) -> None:
    """Exit code 2 and 1; neither is called whole."""
    nothing = check_checkpoint(str(tmp_path / "none"))
    assert (nothing.exit_code, nothing.whole) == (2, False)
    assert "there is no such folder" in nothing.to_json()["reason"]
    (tmp_path / "rank-0.bin").write_bytes(b"begun")
    begun = check_checkpoint(str(tmp_path))
    assert (begun.exit_code, begun.whole) == (1, False)
    assert "is not a finished checkpoint" in begun.reason


@pytest.mark.parametrize(
    ("place", "said"),
    [(" ", "--inspect is empty"), ("s3://bucket", "names no checkpoint in the bucket"), ("ftp://x/y", "not a place")],
)
def test_what_names_no_checkpoint_is_refused(place: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_checkpoint(place)
