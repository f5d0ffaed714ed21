"""Every call of raybench that a document shows is executed: here, in ``make test-long``, or by the test that is named.

Those of console blocks are typed by ``test_guides.py``, which holds what they print against the page. Others show no
output: they have to end with a verdict (0, 1 or 3), and never as invalid usage, in a folder that has what they name.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from raybench.cli import group
from raybench.errors import RaybenchError
from tests.cli.test_usage import COMMANDS
from tests.command import started
from tests.site.command_lines import CommandLine
from tests.site.example_folder import fill, keep_preflight
from tests.site.test_command_lines import LINES

VERDICTS = {0, 1, 3}
# Not here, by the begin of a call: what it needs, and the test that does it.
ELSEWHERE = {
    "configure": "hosts: tests/playbooks/test_configure_lab.py",
    "cluster": "hosts: tests/playbooks/test_cluster_lab.py",
    "collect": "hosts: tests/playbooks/test_collect_lab.py",
    "fabric run": "hosts: tests/preflight/fabric/test_lab_fabric.py",
    "nodes watch": "hosts: tests/nodes/test_slurm_lab.py",
    "nodes slurm .*--apply": "Slurm: tests/nodes/test_slurm_lab.py",
    "nodes kubernetes .*--apply": "Kubernetes: tests/nodes/test_api_server.py",
    "preflight .*(-i|--level)": "hosts: tests/playbooks/test_preflight.py",
    "top": "a run that goes on, hosts: tests/execution/live/test_state.py, tests/hosts/test_top_hosts_lab.py",
    "launch rank": "a launcher: tests/launchers/test_ranks.py",
    "launch kubernetes .*--fetch": "Kubernetes: tests/launchers/kubernetes/test_follow.py",
    "checkpoint --inspect": "one that was kept: tests/benchmarks/checkpoint/test_checkpoint.py",
    "run .*--address head": "a cluster: tests/faults/test_lab_runs.py",
    "run .*--track wandbb": "refused on purpose: tests/site/test_guides.py",
    "train .*--weights": "weights: tests/benchmarks/training/test_training.py",
    "(train|study) .*--track mlflow": "its client: tests/trackers/test_clients.py",
    "study (?!show|batch-size --batch-sizes 4,8)": "minutes: tests/cli/test_study.py, tests/cli/test_study_sweeps.py",
    "study show": "a study's trials: tests/cli/test_study.py",
}
# As they stand in `make test-long`, and here with --dry-run where they have it: real runs of this machine.
LONG = (
    "run --nodes 2( --suite.*)?", "run --json",
    "run --baseline runs/RUN_ID", "run .*--config run.yml",
    "train --nodes 2", "train --model mlp .*", "train --data corpus.jsonl .*", "train --steps 500 --data text .*",
    "memory --model small .*", "checkpoint --nodes 2 --to checkpoints .*", "study batch-size --batch-sizes 4,8 .*",
    "selftest.*", "fabric plan --nodes 1000 .*", "preflight", "agent.*",
)  # fmt: skip
_DRY = ("run", "train", "memory", "checkpoint")
_NOT_DRY = ("selftest", "fabric plan --nodes 1000", "study", "preflight", "agent")


def unique() -> dict[str, CommandLine]:
    found: dict[str, CommandLine] = {}
    for one in LINES:
        found.setdefault(" ".join(one.words), one)
    return found


def elsewhere(call: str) -> str | None:
    return next((why for begin, why in ELSEWHERE.items() if re.match(rf"{begin}\b|{begin}", call)), None)


def is_long(call: str) -> bool:
    return any(re.fullmatch(pattern, call) for pattern in LONG)


HERE = [one for call, one in unique().items() if not elsewhere(call) and not call.startswith(_NOT_DRY)]
REAL = [one for call, one in unique().items() if not elsewhere(call) and is_long(call)]


def as_executed(words: tuple[str, ...]) -> list[str]:
    """Names of the root as those of the folder, patterns as a shell has them, and of runs only what they need."""
    found: list[str] = []
    for word in words:
        local = re.sub(r"^/(var/tmp|var/lib/prometheus/node-exporter)/", "", word)
        found += sorted(map(str, Path().glob(local))) if "*" in local and not local.startswith("/") else []
        found += [] if "*" in local and any(Path().glob(local)) else [local]
    if words[0] == "launch":
        found.insert(found.index("--") if "--" in found else len(found), "--dry-run")
    elif words[0] in _DRY and "--nsys-command" not in found:
        found.append("--dry-run")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """What the examples name; they are executed there in the order of the documents."""
    here, before = tmp_path, Path.cwd()
    fill(here)
    os.chdir(here)
    try:
        done = execute(["preflight", "--only", "host-memlock", "--history", "made.sqlite", "--output-dir", "made"])
        assert done in VERDICTS
        (made,) = (here / "made").glob("*/preflight.json")
        keep_preflight(here, made, here / "made.sqlite")
        assert execute(["baseline", "create", "runs/week-1", "--output", "healthy.json"]) == 0
        yield here
    finally:
        os.chdir(before)


def execute(words: list[str]) -> int | str:
    """The exit code; of a refusal what it says."""
    done = CliRunner().invoke(group, words, prog_name="raybench")
    if isinstance(done.exception, RaybenchError):
        return done.exception.exit_code if done.exception.exit_code != 2 else f"2: {done.exception}"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code if done.exit_code != 2 else f"2: {done.stderr}"


@pytest.mark.usefixtures("folder")
def test_every_example_ends_with_a_verdict() -> None:
    ends = {f"{one.document}:{one.line}": execute(as_executed(one.words)) for one in HERE}
    assert {where: end for where, end in ends.items() if end not in VERDICTS} == {}
    assert len(set(ends.values())) == len(VERDICTS)


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize("one", REAL, ids=lambda one: f"{one.document}:{one.line}")
def test_an_example_measures_this_machine(one: CommandLine, tmp_path: Path) -> None:
    fill(tmp_path)
    beside = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    words = [str(os.getpid()) if word == "4711" else word.replace("/scratch", "/tmp") for word in one.words]
    ends = {"--once"} - set(words) if words[0] == "agent" else ()
    with started(*words, *ends, given=True, beside=beside) as command:
        assert command.finish(400) in VERDICTS, command.errors
        assert "Traceback" not in command.errors


def test_every_command_has_an_example_and_what_is_elsewhere_is_there() -> None:
    calls = list(unique())
    assert {path for path in COMMANDS if not any(f"raybench {call} ".startswith(f"{path} ") for call in calls)} == set()
    assert {begin for begin in ELSEWHERE if not any(re.match(begin, call) for call in calls)} == set()
    assert {pattern for pattern in LONG if not any(re.fullmatch(pattern, call) for call in calls)} == set()
    named = {name for why in ELSEWHERE.values() for name in re.findall(r"tests/[\w/.]+\.py", why)}
    root = Path(__file__).parents[2]
    assert {name for name in named if not (root / name).is_file()} == set()
    assert len(HERE) > 80
