"""Ray on a lab: two nodes that differ in address and host name, workers at their niceness, and a node that dies."""

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from .cluster import Lab
from .errors import LabSetupError
from .fixtures import require_lab
from .ray_cluster import QUICK_DEATH_SETTINGS

pytestmark = [pytest.mark.lab, pytest.mark.cluster]

CONNECT = """
import json, os, socket, sys, time
import ray
ray.init(address="auto", log_to_driver=False)
"""
SPREAD = """
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as Placed
@ray.remote(num_cpus=1, num_gpus=1)
class Rank:
    def where(self):
        return socket.gethostname(), os.nice(0), ray.util.get_node_ip_address()
group = ray.util.placement_group([{"CPU": 1, "GPU": 1}] * 2, strategy="STRICT_SPREAD")
ranks = [Rank.options(scheduling_strategy=Placed(group, index)).remote() for index in range(2)]
nodes = [(node["NodeManagerHostname"], node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]]
print(json.dumps({"nodes": nodes, "ranks": ray.get([rank.where.remote() for rank in ranks])}))
"""
WATCH = """
print(sum(node["Alive"] for node in ray.nodes()), flush=True)
while len(left := [node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]]) == 2:
    time.sleep(0.05)
print(*sorted(left), flush=True)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    require_lab()
    with Lab(nodes=2) as lab:
        lab.start_ray(cpus_per_node=2, gpus_per_node=1, settings=QUICK_DEATH_SETTINGS)
        yield lab


def test_nodes_form_a_cluster_with_an_actor_on_each(cluster: Lab) -> None:
    done = cluster.nodes[1].run(["python", "-c", CONNECT + SPREAD], timeout=60)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    expected = {(node.hostname, node.address) for node in cluster.nodes}
    assert {(hostname, address) for hostname, address in answer["nodes"]} == expected
    assert {(hostname, address) for hostname, _, address in answer["ranks"]} == expected
    assert {niceness for _, niceness, _ in answer["ranks"]} == {os.nice(0)}  # Ray's own would be 15 more


def test_ray_itself_is_not_left_over_but_a_worker_with_a_job_is(cluster: Lab) -> None:
    script = CONNECT + SPREAD + "print('placed', flush=True)\nsys.stdin.read()"
    with cluster.nodes[0].popen(["python", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        while driver.stdout.readline() != "placed\n":
            assert driver.poll() is None
        commands = [process.command for process in cluster.leftover_processes()["node2"]]
        driver.stdin.close()
    assert len(commands) == 1
    assert commands[0].startswith("ray::Rank")


def test_a_driver_without_the_token_is_refused(cluster: Lab) -> None:
    done = cluster.nodes[1].run(["python", "-c", CONNECT], environment={"HOME": "/nowhere"})
    assert "no authentication token was found" in done.stderr


def test_ray_that_does_not_start_says_what_ray_said() -> None:
    require_lab()
    said = "(?s)ray start on node1 ended with status 1.*no authentication token was found"
    with Lab(nodes=1) as lab, pytest.raises(LabSetupError, match=said):
        lab.start_ray(settings={"HOME": "/nowhere"})


def test_last_a_killed_node_leaves_the_cluster(cluster: Lab) -> None:
    with cluster.nodes[0].popen(["python", "-c", CONNECT + WATCH], stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "2\n"
        cluster.nodes[1].kill()
        lines = driver.stdout.read().splitlines()
    assert lines[-1] == "node1"
    assert cluster.nodes[0].alive
