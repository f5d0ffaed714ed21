"""A machine that may not, or cannot, measure on the Ray cluster that it brought up over a lab host by Ansible."""

import pytest

from tests.playbooks.lab_cluster import LabController, lab_hosts

pytestmark = [pytest.mark.lab, pytest.mark.cluster, pytest.mark.timed]


@pytest.mark.long
def test_a_control_machine_that_nodes_cannot_reach_or_without_the_token_is_refused() -> None:
    with lab_hosts(1) as controller:
        controller.cluster("up", "-i", controller.inventory)
        check_refusals(controller)


def check_refusals(controller: LabController) -> None:
    scratch = controller.lab.folder.shared / "t"
    scratch.mkdir()
    run = ("run", "--suite", "all_reduce", "--sizes", "1K", "--output-dir", scratch / "runs")
    token = controller.state / "token"
    content = token.read_text()
    token.write_text("")
    lost = controller.raybench(*run, environment={"TMPDIR": str(scratch)})
    token.write_text(content)
    rules = controller.lab.folder.shared / "rules.nft"
    rules.write_text(_CLOSED)
    if controller.lab.control.run(["nft", "-f", rules]).returncode == 0:
        try:
            closed = controller.raybench(*run, environment={"TMPDIR": str(scratch)})
        finally:
            controller.lab.control.run(["nft", "delete", "table", "inet", "closed"], check=True)
        assert "open connections to" in closed.stderr
        assert (closed.returncode, len(closed.stderr.splitlines())) == (2, 1), closed.stderr
    assert "its token is missing: RAY_AUTH_TOKEN_PATH names" in lost.stderr
    assert (lost.returncode, len(lost.stderr.splitlines())) == (2, 1), lost.stderr
    assert [path.name for path in scratch.rglob("*")] == ["runs"]


_CLOSED = """table inet closed {
 chain input {
  type filter hook input priority 0; policy accept;
  ct state established,related accept
  iifname "br0" ct state new drop
 }
}
"""
