"""An embedded run, called in a folder of somebody else's: what it imports, where it listens, what it writes down."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.command import Command, started
from tests.result_contract import read_result

pytestmark = pytest.mark.cluster

SECRET = "hunter2-0f3a"
MODULES = ("torch", "numpy", "psutil", "msgspec", "selectors", "raybench")
LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")


class Seen:
    """What was seen of a run while it ran: addresses listened on by name of process, and command lines."""

    def __init__(self) -> None:
        self.listening: set[tuple[str, str]] = set()
        self.commands: dict[int, str] = {}

    def look(self, command: Command) -> None:
        for pid, text in command.processes().items():
            if pid != command.process.pid:  # what the user typed
                self.commands[pid] = text  # the last: a fork shows its parent's for a moment
            try:
                process = psutil.Process(pid)
                connections = process.net_connections("inet")
                self.listening |= {
                    (process.name(), one.laddr.ip) for one in connections if one.status == psutil.CONN_LISTEN
                }
            except psutil.Error:
                continue


@pytest.fixture(scope="module")
def run() -> Iterator[tuple[Command, Seen]]:
    code = "import os\nopen(os.environ['MARKER'], 'a').write(__file__ + chr(10))\n"
    before = os.umask(0o027)
    options = [
        "--json",
        "--quiet",
        "--nodes",
        "2",
        "--suite",
        "all_reduce",
        "--sizes",
        "1M",
        "--iters",
        "20",
        "--blocks",
        "20",
    ]
    secrets = ["--env", f"MY_TOKEN={SECRET}", "--env", f"NCCL_SOME_SECRET={SECRET}", "--env", "NCCL_IB_PKEY=7"]
    try:
        with started(
            *("run", *options, *secrets, "--address", "local"),
            environment={"MARKER": "marker", "URL_OF_ALL": f"https://me:{SECRET}@host"},
            beside={f"{name}.py": code for name in MODULES},
        ) as command:
            seen = Seen()
            while command.process.poll() is None:
                seen.look(command)
                time.sleep(0.5)  # a look at all their sockets costs processor time
            assert command.finish(60) == 0, command.errors
            yield command, seen
    finally:
        os.umask(before)


def test_nothing_is_imported_from_the_folder_that_it_is_called_in(run: tuple[Command, Seen]) -> None:
    command, _ = run
    assert (command.folder / "torch.py").exists()
    assert not (command.folder / "marker").exists()


def test_every_socket_listens_on_loopback_only(run: tuple[Command, Seen]) -> None:
    _, seen = run
    names = {name for name, _ in seen.listening}
    assert {"gcs_server", "raylet"} <= names
    assert any(name.startswith("ray::RayNodeActor") for name in names)
    assert any("python" in name or "raybench" in name for name in names)  # driver, ranks
    assert {(name, ip) for name, ip in seen.listening if ip not in LOOPBACK} == set()


def test_a_secret_reaches_the_ranks_and_is_written_nowhere(run: tuple[Command, Seen]) -> None:
    command, seen = run
    result = command.result()
    variables = result["environment"]["variables"]
    assert (variables["MY_TOKEN"], variables["NCCL_IB_PKEY"]) == ("set", "7")
    assert "MY_TOKEN=set" in result["config"]["env"]
    ranks = [rank for node in result["cluster"]["nodes"] for rank in node["facts"]["ranks"].values()]
    assert {rank["env.NCCL_SOME_SECRET"] for rank in ranks} == {"set"}
    assert not [text for text in seen.commands.values() if SECRET in text]
    assert SECRET not in command.out + command.errors
    (folder,) = command.run_folders
    assert not [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_json_alone_is_on_standard_output_and_quiet_is_quiet(run: tuple[Command, Seen]) -> None:
    command, _ = run
    read_result(command.out)
    assert json.loads(command.out) == command.result()
    assert command.errors == ""


def test_the_folder_follows_the_umask_and_its_logs_are_private(run: tuple[Command, Seen]) -> None:
    command, _ = run
    (folder,) = command.run_folders
    assert mode(folder) == 0o750
    assert {mode(path) for path in folder.iterdir() if path.is_file()} == {0o640}
    assert mode(folder / "logs") == 0o700
    assert {mode(path) for path in (folder / "logs").iterdir()} == {0o600}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777
