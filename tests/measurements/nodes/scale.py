"""What many hosts cost: one preflight of them all, and what is made of it, by their number. Some hang, some die.

``python -m tests.measurements.nodes.scale --hosts 125,250,500`` (and ``--ansible``)

Hosts are synthetic: each has what a real probe of this machine said, under its own name. With ``--ansible`` they are
asked by the real Ansible, with its forks, its limits and our plugins; in the place of ssh stands a program that
answers, that never does (``--hang`` of a hundred hosts), that cannot connect (``--dead``) or that ends half-way (as
many again). So the seconds are those of the control node: no network and no other machine is in them. All say the same
clock, so that with ``--ansible`` many are degraded: they are asked one after the other. Each size has a process.
"""

import argparse
import base64
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from raybench.hosts.local_probe import probe_here
from tests.conftest import REPOSITORY
from tests.measurements.table import print_table, write_json

_HOST_SECONDS = 20
_SSH = """#!/bin/sh
# ssh -o ... HOST COMMAND: no host is reached
case "$*" in
  *hang-*) exec sleep 600 ;;
  *dead-*) echo "ssh: connect to host dead port 22: No route to host" >&2; exit 255 ;;
  *cut-*)  printf '{{"packed": "eJw'; exit 0 ;;
  *"echo ~"*) echo /root; exit 0 ;;
  *) cat >/dev/null; exec cat {answer} ;;
esac
"""


def main() -> int:
    """The table; exit code 1 where a host among many costs more than twice what it does among few."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="125,250,500", help="numbers of hosts")
    parser.add_argument("--hang", type=int, default=4, metavar="P", help="of a hundred hosts, how many hang")
    parser.add_argument("--dead", type=int, default=4, metavar="P", help="of a hundred hosts, how many are dead")
    parser.add_argument("--ansible", action="store_true", help="with Ansible's round trips; minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_measured(int(options.child), options.hang, options.dead, ansible=options.ansible)))
        return 0
    found = [_in_a_process(count, options) for count in map(int, options.hosts.split(","))]
    names = list(found[0]["seconds"])
    rows = [
        [str(one["hosts"]), *(f"{one['seconds'][name]:.2f}" for name in names), f"{one['peak_mib']:.0f}",
         f"{1000 * sum(one['seconds'].values()) / one['hosts']:.1f}", one["nodes"]]
        for one in found
    ]  # fmt: skip
    header = ("hosts", *(f"{name} s" for name in names), "peak MiB", "ms a host", "nodes")
    print_table(
        f"One report of many hosts: {options.hang} % hang, {options.dead} % dead, {options.dead} % cut", header, rows
    )
    write_json(options.json, "node_scale", {"points": found})
    return int(not _linear(found))


def _linear(found: list[dict[str, Any]]) -> bool:
    """Whether a host costs no more among many than twice what it does among few."""
    a_host = [sum(one["seconds"].values()) / one["hosts"] for one in found]
    return all(each <= 2 * a_host[0] for each in a_host)


def _in_a_process(count: int, options: argparse.Namespace) -> dict[str, Any]:
    words = [sys.executable, "-m", "tests.measurements.nodes.scale", "--child", str(count), "--hang", str(options.hang)]
    words += ["--dead", str(options.dead), *(["--ansible"] if options.ansible else [])]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, cwd=REPOSITORY)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _names(count: int, hang: int, dead: int) -> list[str]:
    """Of each hundred so many hang, are dead and are cut, spread evenly."""
    kinds = [*["hang"] * hang, *["dead"] * dead, *["cut"] * dead]
    step = 100 // max(1, len(kinds))
    named = {number * step: kind for number, kind in enumerate(kinds)}
    return [f"{named.get(number % 100, 'gpu')}-{number:04}" for number in range(count)]


def _measured(count: int, hang: int, dead: int, *, ansible: bool) -> dict[str, Any]:
    packed, reason = probe_here(20.0, expectations={})
    if reason:
        raise RuntimeError(reason)
    names = _names(count, hang, dead)
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        report = (
            _timed(seconds, "preflight", lambda: _by_ansible(names, packed, place))
            if ansible
            else _timed(seconds, "judging", lambda: _judged(names, packed))
        )
        _outputs(report, place, seconds)
    states = {state: len(hosts) for state, hosts in report.summary.nodes.items()}
    gone = {name for name in names if not name.startswith("gpu-")}
    if {host.host for host in report.hosts} != set(names) or set(report.summary.unreachable) != gone:
        raise RuntimeError(
            f"the report has {len(report.hosts)} of {count} hosts, {len(report.summary.unreachable)} gone"
        )
    if set(report.summary.nodes["unknown"]) < gone:
        raise RuntimeError("a host that did not answer is not unknown")
    return {
        "hosts": count,
        "seconds": seconds,
        "peak_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024,
        "nodes": ", ".join(f"{number} {state}" for state, number in states.items() if number),
    }


def _timed(seconds: dict[str, float], name: str, call: Callable[[], Any]) -> Any:
    begun = time.perf_counter()
    found = call()
    seconds[name] = time.perf_counter() - begun
    return found


def _judged(names: list[str], packed: str) -> Any:
    """The answers taken apart and judged; those that did not come are said."""
    from raybench.preflight.probe_answer import unpack
    from raybench.preflight.report import Gathered, build_report

    now = time.time()

    def gathered(name: str) -> Gathered:
        if name.startswith("gpu-"):
            return Gathered(host=name, facts=unpack(_named(packed, name)), sent_at=now - 1, received_at=now)
        return Gathered(host=name, reason="Connection timed out", unreachable=True)

    return build_report(list(map(gathered, names)), finished_at=now)


def _named(packed: str, name: str) -> str:
    """The answer of a host of another name, with its own machine and boot."""
    facts = json.loads(zlib.decompress(base64.b64decode(packed)))
    facts["hostname"] = name
    facts["readings"].get("proc", {}).get("values", {})["/proc/sys/kernel/random/boot_id"] = f"boot-{name}"
    return base64.b64encode(zlib.compress(json.dumps(facts).encode(), 1)).decode()


def _outputs(report: Any, place: Path, seconds: dict[str, float]) -> None:
    """All that is made of a report."""
    from raybench.nodes.history import History
    from raybench.nodes.intent import Policy, intents_of
    from raybench.nodes.slurm import planned, read_nodes
    from raybench.preflight.writing import write_report
    from raybench.reports.html import write_html
    from raybench.services.nodes.files import junit_text, write_prometheus
    from raybench.services.nodes.judged import read_report

    path = _timed(seconds, "preflight.json", lambda: write_report(report, place))
    _timed(seconds, "read", lambda: read_report(path))
    sinfo = "".join(f"{host.host}|{host.host}|{host.host}|idle|root|none\n" for host in report.hosts)
    _timed(seconds, "slurm plan", lambda: planned(intents_of(report, Policy()), read_nodes(sinfo)))
    _timed(seconds, "prometheus", lambda: write_prometheus(report, place / "nodes.prom"))
    _timed(seconds, "junit", lambda: junit_text(report))

    def record() -> None:
        with History(place / "history") as history:
            history.record(report)

    _timed(seconds, "history", record)
    _timed(seconds, "html", lambda: write_html(report, place / "preflight.html"))


def _by_ansible(names: list[str], packed: str, place: Path) -> Any:
    """``raybench preflight`` over an inventory of them."""
    from raybench.services.preflight import PreflightOptions, preflight

    answer, ssh, hosts = place / "answer", place / "ssh", place / "hosts.yml"
    answer.write_text(json.dumps({"changed": False, "packed": packed, "address": "10.0.0.1", "reached": []}) + "\n")
    ssh.write_text(_SSH.format(answer=answer))
    ssh.chmod(0o755)
    variables = {
        "ansible_ssh_executable": str(ssh),
        "ansible_pipelining": True,
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_transfer_method": "piped",
    }
    hosts.write_text(yaml.safe_dump({"all": {"hosts": {name: {} for name in names}, "vars": variables}}))
    os.environ["ANSIBLE_SSH_ARGS"] = "-o ControlMaster=no"
    options = PreflightOptions(
        inventories=[hosts],
        output_dir=str(place / "runs"),
        host_timeout_seconds=_HOST_SECONDS,
        timeout_seconds=3000,
    )
    return preflight(options).report


if __name__ == "__main__":
    sys.exit(main())
