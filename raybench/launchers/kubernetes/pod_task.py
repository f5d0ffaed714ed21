"""What the container of a pod runs: the ranks of its node, or the command beside Ray, and then the results in the log.

``python -m raybench.launchers.kubernetes.pod_task --nodes 2 --ranks-per-node 8 --master-address a-0.a -- run``. Without
``--nodes`` the command runs as it is, as the entry point of a RayJob does.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from raybench.errors import IncompleteRunError
from raybench.launchers.command_words import LAUNCHED, with_folder
from raybench.launchers.kubernetes.frame import framed
from raybench.launchers.ranks.rank_task import CODE_VARIABLE

END = "RAYBENCH-EXIT"


def main() -> int:
    """Run the command. Returns its exit code, the last line printed says it too; 3 where nobody could say it."""
    parser = argparse.ArgumentParser(prog="raybench.launchers.kubernetes.pod_task")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--ranks-per-node", type=int, default=1)
    parser.add_argument("--master-address")
    parser.add_argument("--master-port", type=int, default=29500)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    words = [word for number, word in enumerate(options.words) if number or word != "--"]
    if not words or words[0] not in LAUNCHED:
        parser.error("the command of raybench is missing")
    with tempfile.TemporaryDirectory(prefix="raybench-") as folder:
        results = Path(folder, "results")
        results.mkdir()
        code = _code(options, with_folder(words, results), Path(folder, "code"))
        if any(results.iterdir()):
            _print_results(results)
    print(f"{END} {code}", flush=True)  # noqa: T201 - the log is how it comes home
    return code


def _code(options: argparse.Namespace, words: Sequence[str], path: Path) -> int:
    if options.nodes is None:
        status = _run([sys.executable, "-P", "-m", "raybench", *words], dict(os.environ))
        return status if 0 <= status <= 3 else 3
    index = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
    command = torchrun(options, index, words)
    _run(command, {**os.environ, CODE_VARIABLE: str(path)})
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 3


def torchrun(options: argparse.Namespace, index: int, words: Sequence[str]) -> list[str]:
    """The ranks of the node of this index. The pods' names are fixed, so that no rendezvous has to number them."""
    place = (f"--nnodes={options.nodes}", f"--node-rank={index}", f"--nproc-per-node={options.ranks_per_node}")
    meeting = (f"--master-addr={options.master_address}", f"--master-port={options.master_port}")
    return [
        *(sys.executable, "-P", "-m", "torch.distributed.run", *place, *meeting),
        *("-m", "raybench", "launch", "rank", "--", *words),
    ]


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Wait for a program. The pod's end is passed on to it."""
    process = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    signal.signal(signal.SIGINT, lambda number, _: process.send_signal(number))
    return process.wait()


def _print_results(folder: Path) -> None:
    try:
        for line in framed(folder):
            print(line, flush=False)  # noqa: T201
    except (IncompleteRunError, OSError) as error:
        print(f"raybench: {error}", flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
