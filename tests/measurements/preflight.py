"""``python -m tests.measurements.preflight`` (root): what probing hosts costs against ``ansible -m ping``.

Hosts are nodes of the lab, reached by real ssh, each side with connections of its own that are not kept: alternating,
so that both see the machine in the same mood. The nodes share this machine's CPUs with Ansible: what a probe costs on
a host is paid here as many times as there are hosts, and on real hosts once, beside each other.

The reports of a thousand hosts are made from one host's real facts under a thousand names: through Ansible, from
gathered answers to the verdict, and without it, the judging alone. The round trips to a thousand hosts are not in it.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from raybench.preflight.lines import report_lines
from raybench.preflight.probe_answer import unpack
from raybench.preflight.report import Gathered, build_report
from tests.conftest import REPOSITORY
from tests.lab.cluster import Lab
from tests.lab.requirement import lab_available
from tests.measurements.comparison import ratio_of
from tests.measurements.process import QuietMachine, end_on_sigterm
from tests.measurements.table import print_table, write_json
from tests.playbooks.preflight_lab import lab_inventory, write_inventory

_GOAL, _LIMIT = 1.2, 2.0
_CONTROLLER_LIMIT_SECONDS = 60.0
_PROBE = {"packed": True, "timeout_seconds": 20}


def main() -> int:
    """Measure, print, write. Returns 1 where a limit is missed, 2 where there is no lab."""
    end_on_sigterm()
    options = _options()
    reason = lab_available()
    if reason is not None:
        print(f"preflight: {reason}", file=sys.stderr)
        return 2
    machine = QuietMachine(options.lock)
    with machine.held():
        points = [_point(count, options.rounds) for count in map(int, options.hosts.split(",")) if count]
        controller = _controller(options.reports) if options.reports else None
    _print(points, controller)
    write_json(options.output, "preflight", {"points": points, "controller": controller})
    missed = any(point["ratio"]["ratio"] > _LIMIT for point in points)
    return int(missed or (controller is not None and controller["ansible_seconds"] > _CONTROLLER_LIMIT_SECONDS))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.measurements.preflight", description=__doc__)
    parser.add_argument("--hosts", default="10,50,100", help="numbers of hosts")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of ping, probe, all of preflight, and ping again")
    parser.add_argument("--reports", type=int, default=1000, help="hosts of the report; 0 leaves it out")
    parser.add_argument("--lock", type=Path, help="a lock file to hold while measuring")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    return parser.parse_args()


def _point(count: int, rounds: int) -> dict[str, Any]:
    """Ping, probe, all of preflight, ping again, ``rounds`` times; the second ping against the first is the control."""
    with Lab(nodes=count) as lab:
        hosts = write_inventory(lab.folder.path / "hosts.yml", lab_inventory(lab))
        seconds: dict[str, list[float]] = {"ping": [], "probe": [], "whole": [], "control": []}
        _ad_hoc(lab, hosts, ["-m", "ping"])  # page cache, compiled modules
        for _ in range(rounds):
            seconds["ping"].append(_ad_hoc(lab, hosts, ["-m", "ping"]))
            seconds["probe"].append(_ad_hoc(lab, hosts, ["-m", "raybench_probe", "-a", json.dumps(_PROBE)]))
            seconds["whole"].append(_whole(lab, hosts))
            seconds["control"].append(_ad_hoc(lab, hosts, ["-m", "ping"]))
    whole = ratio_of(seconds["whole"], seconds["ping"])
    ratio, control = ratio_of(seconds["probe"], seconds["ping"]), ratio_of(seconds["control"], seconds["ping"])
    return {
        "hosts": count,
        "seconds": seconds,
        "ratio": ratio.to_json(),
        "control": control.to_json(),
        "whole": whole.to_json(),
        "shown": [str(ratio), str(whole), str(control), ratio.verdict(_GOAL), whole.verdict(_LIMIT)],
    }


def _ad_hoc(lab: Lab, hosts: Path, arguments: Sequence[str]) -> float:
    """Seconds of one call of ``ansible all``. Raises CalledProcessError where a host failed."""
    begun = time.monotonic()
    lab.control.run(
        ["ansible", "all", "-i", hosts, *arguments],
        folder=REPOSITORY / "playbooks",
        timeout=900,
        environment=_no_masters(lab),
        check=True,
    )
    return time.monotonic() - begun


def _no_masters(lab: Lab) -> dict[str, str]:
    """Ansible's settings of the checkout, but for connections that outlive a call."""
    return {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no", "TMPDIR": str(lab.folder.shared)}


def _whole(lab: Lab, hosts: Path) -> float:
    """Seconds of ``raybench preflight``: inventory, probes, ports between hosts, judging and both reports."""
    begun = time.monotonic()
    command: list[str | Path] = ["python", "-m", "raybench", "preflight", "-i", hosts, "--json"]
    done = lab.control.run(
        [*command, "--output-dir", lab.folder.shared], folder=REPOSITORY, timeout=900, environment=_no_masters(lab)
    )
    if done.returncode != 0:
        raise RuntimeError(f"raybench preflight ended with {done.returncode}: {done.stderr[-500:]}")
    return time.monotonic() - begun


def _controller(count: int) -> dict[str, Any]:
    """The end of the playbook for ``count`` hosts whose answers are there, and the judging by itself."""
    packed = _packed()
    facts = unpack(packed)
    begun = time.process_time()
    gathered = [Gathered(host=f"gpu-{number:04}", facts=facts, sent_at=facts["clock"]) for number in range(count)]
    lines = report_lines(build_report(gathered, finished_at=time.time()))
    judging = time.process_time() - begun
    before = _children_cpu_seconds()
    elapsed = _judged_by_ansible(packed, count)
    return {
        "hosts": count,
        "judging_cpu_seconds": judging,
        "ansible_seconds": elapsed,
        "ansible_cpu_seconds": _children_cpu_seconds() - before,
        "lines": len(lines),
    }


def _children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _packed() -> str:
    """The answer of a real probe of this machine."""
    arguments = [
        "-m",
        "raybench_probe",
        "-a",
        json.dumps(_PROBE),
        "-c",
        "local",
        "-e",
        f"ansible_python_interpreter={sys.executable}",
    ]
    program = Path(sys.executable).parent / "ansible"
    done = subprocess.run(
        [program, "-i", "localhost,", "all", *arguments],
        cwd=REPOSITORY / "playbooks", env=os.environ | {"ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    answer: dict[str, str] = json.loads(done.stdout[done.stdout.index("{") :])
    return answer["packed"]


def _judged_by_ansible(packed: str, count: int) -> float:
    """Seconds of preflight.yml from its task that judges on, the answers being variables of the inventory."""
    facts = unpack(packed)
    answer = {"packed": packed, "sent_at": facts["clock"], "changed": False}
    names: dict[str, dict[str, object]] = {f"gpu-{number:04}": {} for number in range(count)}
    inventory = {"all": {"hosts": names, "vars": {"__preflight_gathered": answer, "ansible_connection": "local"}}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hosts.yml")
        path.write_text(yaml.safe_dump(inventory))
        command: list[str | Path] = [Path(sys.executable).parent / "ansible-playbook", "preflight.yml", "-i", path]
        command += [
            "--start-at-task",
            "preflight : Judge all hosts and write the report",
            "-e",
            f"preflight_output_dir={folder}",
        ]
        begun = time.monotonic()
        done = subprocess.run(
            command, cwd=REPOSITORY / "playbooks", capture_output=True, text=True, check=False, timeout=900
        )
        elapsed = time.monotonic() - begun
        report = json.loads(Path(folder, "preflight.json").read_text()) if done.returncode in {0, 2} else {"hosts": []}
    if len(report["hosts"]) != count:
        raise RuntimeError(
            f"the report has {len(report['hosts'])} of {count} hosts: {done.stdout[-2000:]}{done.stderr[-500:]}"
        )
    return elapsed


def _print(points: Sequence[dict[str, Any]], controller: dict[str, Any] | None) -> None:
    rows = [
        [
            str(point["hosts"]),
            f"{statistics.median(point['seconds']['ping']):.2f}",
            f"{statistics.median(point['seconds']['probe']):.2f}",
            f"{statistics.median(point['seconds']['whole']):.2f}",
            *point["shown"],
        ]
        for point in points
    ]
    header = [
        "hosts",
        "ping s",
        "probe s",
        "preflight s",
        "probe / ping",
        "preflight / ping",
        "ping / ping",
        f"probe <= {_GOAL}",
        f"preflight <= {_LIMIT}",
    ]
    if rows:
        print_table("probe of all facts against ansible -m ping, by ssh into nodes of this machine", header, rows)
    if controller is not None:
        names = ("judging_cpu_seconds", "ansible_seconds", "ansible_cpu_seconds")
        rows = [[str(controller["hosts"]), *(f"{controller[name]:.1f}" for name in names)]]
        title = "from answers to the report, one host's facts under many names (no round trips in it)"
        print_table(title, ["hosts", "judging CPU s", "with Ansible s", "with Ansible CPU s"], rows)


if __name__ == "__main__":
    sys.exit(main())
