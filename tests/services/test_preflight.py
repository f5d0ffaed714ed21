"""A preflight as a call: this machine is probed, judged, and the report kept. Hosts over ssh: tests/playbooks."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import raybench
from raybench.documents.preflight import CheckResult
from raybench.errors import UsageError
from raybench.services.preflight import PreflightOptions, list_of_checks, preflight


def test_this_machine_is_probed_and_its_report_kept(tmp_path: Path) -> None:
    seen = list[str | tuple[str, ...]]()

    def on_host(host: str, checks: Sequence[CheckResult]) -> None:
        seen.append((host, *(check.check for check in checks)))

    finished = preflight(
        PreflightOptions(only=("host-os",), output_dir=str(tmp_path)),
        begun=lambda names: seen.append(*names),
        on_host=on_host,
    )
    assert seen == ["localhost", ("localhost", "host-reachable", "host-os")]
    assert finished.exit_code == finished.report.exit_code == 0
    (_, report), (_, page) = finished.files
    assert raybench.load(report) == finished.report
    assert "host-os" in page.read_text()
    assert [what for what, _ in finished.files] == ["report", "page"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (PreflightOptions(only=("host-oss",)), "host-os"),
        (PreflightOptions(expect=("gpu_cuont=8",)), "gpu_count"),
    ],
)
def test_what_cannot_be_is_refused_before_a_host_is_contacted(options: PreflightOptions, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        preflight(options, begun=lambda _: pytest.fail("begun"))


def test_every_check_has_a_line() -> None:
    assert any(line.split() == ["host-os", "Operating", "system"] for line in list_of_checks())
