"""``raybench fabric import``: what was judged is said, and what no file tells of is not known, never fine."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import raybench
from raybench.cli.fabric import command
from raybench.errors import UsageError
from raybench.services.fabric import import_fabric
from tests.preflight.subnet.fabric import GPU1, LEAF, db_csv

RECORDED = Path(__file__).parents[1] / "preflight/subnet/recorded"


def test_a_folder_gives_what_can_be_read_of_it_and_lists_the_rest(tmp_path: Path) -> None:
    (tmp_path / "ibdiagnet2.db_csv").write_text(db_csv())
    (tmp_path / "ibdiagnet2.pkey").write_text("GROUP PKey:0xffff\n")
    report = import_fabric([tmp_path])
    assert [(Path(one.name).name, one.format) for one in report.files] == [
        ("ibdiagnet2.db_csv", "ibdiagnet2.db_csv"),
        ("ibdiagnet2.pkey", ""),
    ]
    assert (report.conclusion.verdict, report.exit_code, report.nodes) == ("ok", 0, 4)
    assert report.not_judged == ("bit errors", "alarms")
    assert "not told: bit errors, alarms" in report.conclusion.reason


def test_a_port_at_fault_ends_with_1_and_the_document_is_loaded_again(tmp_path: Path) -> None:
    slow = {"LinkSpeedActv": "1"}
    (tmp_path / "tables").write_text(db_csv({(GPU1, 1): slow, (LEAF, 1): slow}))
    answer = CliRunner().invoke(command, ["import", str(tmp_path / "tables"), "--json"])
    assert answer.exit_code == 1
    (tmp_path / "ports.json").write_text(answer.stdout)
    document = raybench.load(tmp_path / "ports.json")
    assert document.to_json() == json.loads(answer.stdout)
    assert [one.hosts for one in document.findings] == [("gpu-01",)]
    assert "runs at 4x SDR" in raybench.html(document)


def test_a_warning_ends_with_0_and_text_of_a_file_stays_text(tmp_path: Path) -> None:
    hostile = (RECORDED / "ibqueryerrors_ibsim.txt").read_text().replace("node5", "<b>\x1b[31mnode5")
    (tmp_path / "errors.txt").write_text(hostile)
    answer = CliRunner().invoke(command, ["import", str(tmp_path / "errors.txt")])
    assert (answer.exit_code, "\x1b" in answer.stdout) == (0, False)
    assert "<b>" not in raybench.html(import_fabric([tmp_path / "errors.txt"]))


@pytest.mark.parametrize("make", ["missing", "unknown", "too many"])
def test_what_cannot_be_read_is_refused(tmp_path: Path, make: str) -> None:
    if make != "missing":
        (tmp_path / "file").write_text("nothing that is known")
    for number in range(1001 if make == "too many" else 0):
        (tmp_path / str(number)).touch()
    with pytest.raises(UsageError, match=r"cannot be read|can be read here|at most") as refused:
        import_fabric([tmp_path if make == "too many" else tmp_path / "file"])
    assert "\n" not in str(refused.value)
