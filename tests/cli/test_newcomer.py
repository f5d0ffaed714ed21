"""What a newcomer types: wrong words, options in the wrong place, values that cannot be meant, and silence."""

import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from raybench.cli import COMMANDS, GROUPS, group
from raybench.errors import UsageError, nearest, unknown_value
from raybench.execution.placement import Candidate
from raybench.execution.ray_cluster.session import emulated_candidates
from raybench.units import parse_amount
from tests.command import RAYBENCH, answer


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rnu"], "No such command 'rnu'. Did you mean 'raybench run'?"),
        (["Preflight"], "Did you mean 'raybench preflight'?"),
        (["xyzzy"], "No such command 'xyzzy'. Commands: "),
        (["hlep"], "No such command 'hlep'. Did you mean 'raybench help'?"),
        (["version"], "Did you mean 'raybench --version'?"),
        (["--hlep"], "No such option '--hlep'. Did you mean --help?"),
        (["--versoin"], "Did you mean --version?"),
        (["-v"], "No such option '-v'. Did you mean -V or --version?"),
        (["run", "-N", "2"], "Did you mean --nodes or -n"),
        (["run", "-z"], "No such option '-z'."),
        (["cluster", "pu"], "No such command 'pu'. Did you mean 'raybench cluster up'? Commands: down, status, up."),
        (["study", "version"], "No such command 'version'. Commands: "),
        (["estimate", "--world-size", "0"], "--world-size is 0, with 8 ranks a node (--gpus-per-node): both must"),
        (["run", "--baseline", "/no/result.json", "--dry-run"], "the baseline /no/result.json cannot be read"),
        (["study", "network", "--networks", "tcp,rmda"], "'rmda' is not a network; did you mean 'rdma'?"),
        (["help", "xyzzy"], "No such command 'xyzzy'. Commands: "),
        (["--nodes", "2", "run"], "Options of a command stand after it: raybench run --nodes ..."),
        (["cluster", "-i", "hosts.yml", "up"], "Options of a command stand after it: raybench cluster up -i ..."),
        (["run", "2"], "Values of 'raybench run' follow an option, such as --nodes N"),
        (["diagnose", "--format", "txt", "."], "Did you mean 'text'?"),
        (["expected", "--operation=allreduce"], "Did you mean 'all_reduce'?"),
        (["preflight", "--only", "gpuu"], "there is no check gpuu; did you mean 'gpu'"),
        (
            ["configure", "--check", "--tags", "memlok"],
            "no tag in configure.yml named 'memlok'; did you mean 'memlock'?",
        ),
        (["run", "--suite", "allreduce"], "no suite or benchmark 'allreduce'; did you mean 'all_reduce'?"),
        (
            ["memory", "--memory-limit", "5"],
            "--memory-limit 5 is 5 bytes; it must be at least 1M: write its unit, such as 5G",
        ),
        (["run", "--log-limit", "16"], "--log-limit 16 is 16 bytes; it must be at least 4K"),
        (["run", "--env", "GLOO_SOCKET_IFNAME=no0"], "GLOO_SOCKET_IFNAME=no0: this machine has no such interface; "),
        (
            ["study", "network", "--networks", "a=lo,b=no0", "--model", "mlp"],
            "1 of 2 variants cannot run: b: GLOO_SOCKET",
        ),
        (
            ["study", "network", "--networks", "tcp,rdma", "--model", "mlp"],
            "CPUs). Join nodes with GPUs with --address",  # over gloo nothing is RDMA
        ),
        (["study", "scaling", "--nodes", "1,2", "--dry-run"], "a study has no --dry-run: every variant is checked"),
        (
            ["study", "strategy", "--trials", "2", "--model", "mlp"],
            "2 of 2 variants cannot run: No such option '--trials'",
        ),
        (
            ["checkpoint", "--nodes", "2", "--to", "/dev/null/x", "--address", "local", "--dry-run"],
            "--to /dev/null/x cannot be written: Not a directory",
        ),
        (["run", "--root", "7", "--nodes", "2"], "--root is 7, and the run has ranks 0 to 1"),
        (
            ["run", "--backend", "nccl", "--nodes", "2"],
            "--backend nccl needs a GPU for every rank, and no node has one",
        ),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(words: list[str], message: str) -> None:
    done = answer(*words, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [["help"], ["help", "run"], ["help", "cluster", "up"]])
def test_help_is_a_command_too(words: list[str]) -> None:
    done = answer(*words)
    assert done.returncode == 0
    assert done.stdout == answer(*words[1:], "--help").stdout


@pytest.mark.parametrize("setting", ["GLOO_SOCKET_IFNAME=lo", "NCCL_SOCKET_IFNAME=ib7", "GLOO_SOCKET_IFNAME=^no0"])
def test_a_dry_run_says_that_nothing_is_missing_and_starts_nothing(setting: str) -> None:
    done = answer("run", "--dry-run", "--nodes", "2", "--address", "local", "--backend", "gloo", "--env", setting)
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing was measured" in done.stderr


def test_nearest_is_what_a_slip_makes_and_nothing_else() -> None:
    assert nearest("dpp", ["ddp", "fsdp", "lora"]) == ["ddp"]
    assert nearest("all-reduce", ["all_reduce", "reduce"]) == ["all_reduce"]
    assert nearest("zero", ["ddp", "fsdp", "lora", "qlora"]) == []
    assert str(unknown_value("backend", "mpi", ("nccl", "gloo", None))).endswith("is not known; there are: nccl, gloo")


def test_a_size_with_its_unit_and_a_long_number_are_taken() -> None:
    assert parse_amount("--limit", "5G", "1M") == 5 * 2**30
    assert parse_amount("--limit", "1048576", "1M") == 2**20
    with pytest.raises(UsageError, match=r"--limit 5K is 5120 bytes; it must be at least 1M: write its unit$"):
        parse_amount("--limit", "5K", "1M")


def test_emulated_nodes_are_known_before_they_are_there() -> None:
    assert [node.gpu_count for node in emulated_candidates(2, ["0", "1", "2", "3"])] == [2, 2]
    assert emulated_candidates(1, []) == (
        Candidate(node_id="", name="node-1", address="this machine", gpu_count=0, cpu_count=1),
    )


@pytest.mark.parametrize("options", [[], ["--rollback"]])
def test_configure_does_not_touch_this_machine_unasked(options: list[str]) -> None:
    done = answer("configure", "--tags", "memlock", *options)
    assert done.returncode == 2
    assert "without -i this would" in done.stderr
    assert "give --yes if that is meant" in done.stderr


@pytest.mark.parametrize(
    ("names", "first"), [(("a.log",), "reading a.log ..."), (("a.log", "b.log"), "reading a.log and 1 more ...")]
)
def test_a_terminal_is_told_what_is_read_before_a_long_log_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], first: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in names:
        (tmp_path / name).write_text("n1:7:7 [0] NCCL INFO Using network Socket\n")
    shown, _ = on_terminal(["diagnose", *names])
    assert shown.startswith(f"raybench: {first}")
    piped = subprocess.run([*RAYBENCH, "diagnose", *names], capture_output=True, text=True, check=False)
    assert "reading" not in piped.stderr


def test_configure_asks_on_a_terminal_and_nothing_but_yes_goes_on() -> None:
    shown, code = on_terminal(["configure", "--tags", "memlock"], "\n")
    assert "Go on? [y/N]" in shown
    assert code == 3
    assert shown.rstrip().endswith("raybench: stopped")


def on_terminal(words: list[str], typed: str = "", seconds: float = 60.0) -> tuple[str, int]:
    """What a command shows on a terminal, and how it ends; ``typed`` is its input."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*RAYBENCH, *words], stdin=slave, stdout=slave, stderr=slave, env=os.environ | {"TERM": "xterm"}
    )
    os.close(slave)
    os.write(master, typed.encode())
    shown = b"".join(chunks(master, time.monotonic() + seconds))
    os.close(master)
    return shown.decode(), process.wait(60)


def chunks(master: int, deadline: float) -> list[bytes]:
    """What comes from a terminal until its other end is closed."""
    found = []
    while time.monotonic() < deadline:
        if not select.select([master], [], [], 0.05)[0]:
            continue
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        found.append(data)
    return found


def test_every_command_of_the_help_can_be_asked_for_help() -> None:
    shown = CliRunner().invoke(group, ["--help"]).output
    listed = shown.partition("Options:")[2].partition("Start here:")[0]
    assert sorted(re.findall(r"^  ([a-z-]+)  ", listed, re.MULTILINE)) == sorted(COMMANDS), "each in one of GROUPS"
    assert [title for title in GROUPS if f"\n{title}:\n" not in shown] == []
    assert len(shown.split("\n")) <= 60
    assert max(map(len, listed.split("\n"))) < 80, "a line a command"
    for name in COMMANDS:
        # A process each: click keeps a command's help option as it was first asked for, in other tests without -h.
        assert answer(name, "-h").returncode == 0


def test_the_first_line_does_not_wait_for_ray(tmp_path: Path) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/__init__.py").write_text("import time\ntime.sleep(600)\n")  # one that takes for ever to import
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*RAYBENCH, "run", "--address", "127.0.0.1:1"],
        stdin=slave, stdout=slave, stderr=slave, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path},
    ) as process:  # fmt: skip
        os.close(slave)
        shown, deadline = b"", time.monotonic() + 60
        while not shown.endswith(b"\n") and select.select([master], [], [], max(deadline - time.monotonic(), 0))[0]:
            shown += os.read(master, 65536)
        process.kill()
    os.close(master)
    assert b"joining the Ray cluster at 127.0.0.1:1 ..." in shown
    quiet = subprocess.run([*RAYBENCH, "run", "--address", "127.0.0.1:1"], capture_output=True, text=True, check=False)
    assert "joining" not in quiet.stderr
