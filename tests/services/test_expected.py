"""What a healthy system reaches, as a call."""

import pytest

from raybench.errors import UsageError
from raybench.services.expected import SystemOptions, expected_bandwidth


def test_a_figure_for_each_size_or_the_reason_why_there_is_none() -> None:
    known = expected_bandwidth(SystemOptions(node_type="p5.48xlarge", nodes=2), sizes="1G:4G:2")
    assert (known.exit_code, known.unknown) == (0, None)
    assert [point.message_bytes for point in known.points] == [2**30, 2**31, 2**32]
    unknown = expected_bandwidth(SystemOptions(gpu="A10G"), sizes="1G")
    assert (unknown.exit_code, unknown.points) == (3, ())
    assert "no published figures of A10G" in (unknown.unknown or "")


@pytest.mark.parametrize(
    ("options", "said"),
    [(SystemOptions(), "name the machine"), (SystemOptions(gpu="H100", nodes=0), "--nodes is 0")],
)
def test_a_system_that_cannot_be_is_refused(options: SystemOptions, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        expected_bandwidth(options, sizes="1G")
