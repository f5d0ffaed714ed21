"""``python -m tests.lab up N [--ray]``: hold a lab in the foreground and say how to get into it, until Ctrl-C."""

import argparse
import signal
import sys
import time
from types import FrameType

from .cluster import Lab
from .errors import LabError


def main() -> int:
    """Build, describe, wait, take down. Returns an exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="A cluster on this machine, until Ctrl-C.")
    parser.add_argument("action", choices=["up"])
    parser.add_argument("nodes", type=int, help="number of nodes")
    parser.add_argument("--ray", action="store_true", help="start Ray on every node, the head on node1")
    parser.add_argument("--cpus", type=int, default=2, help="CPUs that each node declares to Ray")
    parser.add_argument("--gpus", type=int, default=0, help="GPUs that each node declares to Ray")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    try:
        _hold(options)
    except KeyboardInterrupt:
        print("taken down")
    except (LabError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _hold(options: argparse.Namespace) -> None:
    begun = time.monotonic()
    with Lab(options.nodes) as lab:
        print(f"{options.nodes} nodes up after {time.monotonic() - begun:.2f} s")
        if options.ray:
            lab.start_ray(cpus_per_node=options.cpus, gpus_per_node=options.gpus)
            print(f"Ray up after {time.monotonic() - begun:.2f} s: ray.init(address='{lab.ray_address}') on any node")
        print(describe(lab), flush=True)
        signal.pause()


def describe(lab: Lab) -> str:
    """How to get into each node, from a shell on this machine."""
    lines = []
    for node in [lab.control, *lab.nodes]:
        setting = " ".join(f"{name}={value}" for name, value in node.environment.items())
        enter = f"nsenter --target {node.machine.init_pid} --all env -i {setting} bash"
        lines.append(f"{node.hostname} {node.address}\n  {enter}")
    if lab.ssh is not None:
        lines.append(f"from the control node: ssh -F {lab.ssh.config_file} node1")
    lines.append(f"shared by all nodes and this machine: {lab.folder.shared}\nCtrl-C takes it down")
    return "\n".join(lines)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
