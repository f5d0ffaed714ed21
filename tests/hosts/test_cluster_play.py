"""A playbook of the cluster that Ansible itself did not survive is incomplete, and no invalid usage."""

import pytest

from raybench.errors import IncompleteRunError
from raybench.hosts import cluster_play
from raybench.hosts.cluster_play import play_cluster
from raybench.hosts.inventory import Host, Inventory
from raybench.hosts.playbook import PlaybookOutcome


@pytest.mark.parametrize(("code", "killed"), [(None, True), (137, True), (250, False), (4, False)])
def test_ansible_that_was_killed_is_an_incomplete_run(
    monkeypatch: pytest.MonkeyPatch, code: int | None, killed: bool
) -> None:
    ended = PlaybookOutcome(return_code=code, status="failed", hosts=(), output_tail="PLAY [Log in to every host]")
    monkeypatch.setattr(cluster_play, "run_playbook", lambda *_, **__: ended)
    host = Host(name="n1", address="n1", variables={})
    inventory = Inventory(sources=("hosts.yml",), hosts=(host,), groups={"ray_head": ("n1",)})
    if killed:
        with pytest.raises(IncompleteRunError, match=r"by (a signal|SIGKILL) before any host was done"):
            play_cluster("up", inventory)
    else:
        assert play_cluster("up", inventory).status == "failed"
