"""In a round no port of any host is in two tests at once: as planned, and as real agents run them."""

import stat
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raybench.preflight.fabric.conduct import Reply, plan_scan
from raybench.preflight.fabric.measurements import measurements
from raybench.preflight.fabric.rounds import SCOPES
from raybench.preflight.fabric.settings import FabricSettings
from tests.playbooks.local import require_ansible
from tests.preflight.fabric.agents import agents
from tests.preflight.fabric.ends import found, verbs_device
from tests.preflight.fabric.test_conduct import hosts
from tests.processes.ports import free_port

# In place of ib_write_bw: it holds its port, named by host and device, while it runs, and says so where another has it.
STAND_IN = """#!/bin/sh
host=$(basename "$(dirname "$0")"); mine="$(dirname "$0")/../locks/$host.$2"; port=$6
for peer; do :; done
mkdir "$mine" || { echo "$host $2 is in use" >> "$(dirname "$0")/../twice"; exit 9; }
trap 'rmdir "$mine"' EXIT
run() { python3 -c "$1" "$port" "$peer"; }
case "$peer" in
127.*) run "import socket,sys,time; s=socket.create_connection((sys.argv[2], int(sys.argv[1])))
time.sleep(0.2); s.sendall(b'x')
print('#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]')
print('65536 5000 0.00 390.00 0.743866')" ;;
*) run "import socket,sys; s=socket.create_server(('', int(sys.argv[1]))); c, _ = s.accept(); c.recv(9)" ;;
esac
"""


@given(st.sampled_from(SCOPES), st.integers(2, 13), st.integers(1, 4), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_each_port_has_one_partner_in_a_round(scope: str, count: int, devices: int, leaf: int) -> None:
    chosen = FabricSettings(scope=scope, leaf_size=leaf)
    work = plan_scan(hosts(count, devices), chosen, token="t", forks=50).work
    partners: dict[tuple[int, str, str], set[str]] = {}
    for host, one in work.items():
        for number, lanes in one["rounds"]:
            running = Counter(test[3] for lane in lanes for test in lane[:1])
            assert not running or max(running.values()) == 1, "two lanes of a round begin on one port"
            for lane in lanes:
                assert scope == "rails" or len({test[3] for test in lane}) == 1, "a lane of several ports"
                for _, _, peer, key in lane:
                    partners.setdefault((number, host, key), set()).add(peer)
    assert {len(one) for one in partners.values()} == {1}
    assert {key for _, _, key in partners} == {f"mlx5_{n}" for n in range(devices)}, "every rail is measured"
    assert {host for _, host, _ in partners} == set(work)


@pytest.mark.long
@pytest.mark.parametrize("scope", ["all", "rails"])
def test_real_agents_never_use_a_port_twice_at_once(tmp_path: Path, scope: str) -> None:
    require_ansible()
    for name in ("locks", "agents"):
        (tmp_path / name).mkdir()
    replies = []
    for number in range(4):
        program = tmp_path / f"h{number}" / "ib_write_bw"
        program.parent.mkdir()
        program.write_text(STAND_IN)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        end = found(verbs_device("mlx5_0"), verbs_device("mlx5_1"), address=f"127.0.0.{number + 1}")
        end |= {
            "control_port": free_port(),
            "tools": {"ib_write_bw": {"path": str(program), "version": "6", "help": ""}},
        }
        replies.append(
            Reply(name=f"h{number}", end=end, problem="", options={"fabric_address": f"127.0.0.{number + 1}"})
        )
    chosen = FabricSettings(scope=scope, seconds=1, start_seconds=15, limit_seconds=15)
    work = dict(plan_scan(replies, chosen, token="secret", forks=50).work)
    with agents(tmp_path / "agents", work) as running:
        results = {host: agent.finish() for host, agent in running.items()}
    twice = tmp_path / "twice"
    assert not twice.exists(), twice.read_text()
    tests = measurements(results, "ib_write_bw")
    pairs = 6 if scope == "all" else 4
    assert Counter(one.problem for one in tests) == {None: pairs * 2 * 2}  # both directions, both devices
