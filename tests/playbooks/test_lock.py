"""One module of ours at a time: the lock that configure, its rollback and the Ray node share."""

from pathlib import Path

import pytest
from module_utils.raybench_host.lock import locked


def test_who_comes_second_waits_and_is_told_in_its_own_words(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        locked(path, 0.0, KeyError("busy")),
        pytest.raises(KeyError, match="busy"),
        locked(path, 0.3, KeyError("busy")),
    ):
        pass
    with locked(path, 0.0, KeyError("busy")):  # free again, also after it was refused
        assert path.stat().st_mode & 0o777 == 0o600


def test_it_is_free_again_where_its_holder_fails_and_no_link_is_followed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="own"), locked(tmp_path / "lock", 0.0, KeyError("busy")):
        raise ValueError("own")
    with locked(tmp_path / "lock", 0.0, KeyError("busy")):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), locked(tmp_path / "link", 0.0, KeyError("busy")):
        pass
    assert not (tmp_path / "elsewhere").exists()
