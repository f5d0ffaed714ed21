"""How ``raybench collect`` ends, by what it found. What it fetches is in tests/playbooks/test_collect_lab.py."""

from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from raybench.cli.collect import exit_code

CASES = Path(__file__).parents[1] / "diagnostics" / "cases"
UNKNOWN = "n1:7:7 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n"


@pytest.mark.parametrize(("named_paths", "code"), [(True, 3), (False, 0)])
def test_a_path_that_is_on_no_host_is_no_success(named_paths: bool, code: int) -> None:
    """Near miss: hosts on which nothing has run yet have no logs where they usually are."""
    assert exit_code(None, named_paths=named_paths) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ((CASES / "log-truncated/whole/input.log").read_text(), 0),
        ((CASES / "duplicate-gpu/classic/input.log").read_text(), 1),
        (UNKNOWN, 3),
        ("epoch 1 loss 0.4\n", 0),  # nothing of NCCL: nothing was to be judged
    ],
)
def test_it_ends_as_its_logs_are_judged(tmp_path: Path, text: str, code: int) -> None:
    (tmp_path / "a.log").write_text(text)
    assert exit_code(diagnose_paths([tmp_path / "a.log"]), named_paths=True) == code
