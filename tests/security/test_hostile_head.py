"""An ordinary user's Ray head, whose workers answer with pickles that run a program: root's driver runs none of it."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.command import REPOSITORY, started

from .ordinary_user import USER_ID, acting, given, needs_root

pytestmark = [pytest.mark.cluster, needs_root]

# In every Python that the head starts: node actors answer and fail with what runs a program where it is unpickled.
PAYLOAD = """
import os, sys

class Bomb(Exception):
    def __reduce__(self):
        return exec, (f"import os; open({os.environ['MARKER']!r}, 'a').write(str(os.geteuid()) + chr(10))",)

def answer(*_):
    return Bomb()

def fail(*_):
    raise Bomb()

if "default_worker.py" in " ".join(sys.argv + sys.orig_argv):
    import raybench.execution.node_actors.node_actor as module
    from raybench.execution.node_actors.ray_actor import RayNodeActor
    lie = {"answer": answer, "fail": fail}[os.environ["HOW"]]
    module.NodeActor.facts = RayNodeActor.answer = lie
"""
HEAD = """
import os, sys
from pathlib import Path
import ray
from raybench.execution.ray_cluster import embedded
from raybench.execution.ray_cluster.embedded import EmbeddedCluster, set_ray_variables
embedded.LOOPBACK = ray.util.get_node_ip_address()  # a head as 'ray start' makes it
set_ray_variables()
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ.pop("RAY_AUTH_TOKEN")
folder = Path(sys.argv[1])
(folder / "c").mkdir()
head = EmbeddedCluster(folder=folder / "c", cpus_per_node=1, gpus=[()])
(folder / "ray").mkdir(exist_ok=True)
(folder / "ray" / "ray_current_cluster").write_text(head.address)
print(head.address, flush=True)
sys.stdin.read()
head.close()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A running head. ``marker`` is where its programs leave the id of the user as whom they ran."""

    folder: Path
    address: str
    marker: Path

    def ran_as_root(self) -> bool:
        return self.marker.exists() and "0" in self.marker.read_text().split()


@pytest.fixture(scope="module")
def hostile(request: pytest.FixtureRequest) -> Iterator[Hostile]:
    """One that answers so, for all tests that say it: a cluster takes seconds."""
    folder = given(Path(tempfile.mkdtemp(prefix="m-", dir="/tmp")))
    folder.chmod(0o755)
    (folder / "sitecustomize.py").write_text(PAYLOAD)
    marker = folder / "marker"
    marker.touch()
    marker.chmod(0o666)
    path = os.pathsep.join([str(folder), str(REPOSITORY)])
    try:
        with acting(
            HEAD,
            str(folder),
            environment={"PYTHONPATH": path, "MARKER": str(marker), "HOW": request.param, "TMPDIR": str(folder)},
        ) as process:
            assert process.stdout is not None
            yield Hostile(folder=folder, address=process.stdout.readline().strip(), marker=marker)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("hostile", ["answer"], indirect=True)
def test_root_does_not_join_a_head_that_an_ordinary_user_left_in_the_temporary_folder(hostile: Hostile) -> None:
    """The attack as it was proved: a plain ``raybench run``, with a file of his where Ray looks for a cluster."""
    environment = {"TMPDIR": str(hostile.folder), "RAY_AUTH_MODE": "disabled"}
    with started("run", "--nodes", "1", environment=environment, drawn=False) as run:
        assert run.finish(60) == 2
        assert not hostile.ran_as_root()
        assert f"belongs to uid {USER_ID}" in run.errors
        assert "--address" in run.errors
        assert not run.run_folders


@pytest.mark.parametrize("hostile", ["answer", pytest.param("fail", marks=pytest.mark.long)], indirect=True)
def test_what_a_head_that_was_asked_for_answers_is_data(hostile: Hostile) -> None:
    """Even where the user types his address: its pickles are refused, and the node is named."""
    arguments = ["run", "--nodes", "1", "--address", hostile.address]
    with started(*arguments, environment={"RAY_AUTH_MODE": "disabled"}, drawn=False) as run:
        assert run.finish(60) == 3
        assert not hostile.ran_as_root()
        said = json.dumps(run.result()["findings"]) + run.errors
        assert "Traceback" not in said
        assert "node-1" in said
