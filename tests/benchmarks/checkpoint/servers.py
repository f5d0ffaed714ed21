"""Object stores on this machine: moto's S3 server and a GCS emulator, each a process of its own on a free port."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.processes.ports import free_port

_START_SECONDS = 60.0


@contextlib.contextmanager
def served(command: list[str], url: str, folder: Path) -> Iterator[str]:
    """Start a server and wait until it answers; end that process afterwards."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"{command} did not start: {(folder / 'server.log').read_text()[-800:]}")
            time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait(60)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _need(*modules: str) -> None:
    """Skip where one is missing; none is imported, for gcsfs reads its settings when it is."""
    for name in modules:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """An S3 server without buckets. Skips where moto's server is not installed."""
    _need("moto")
    port = free_port()
    code = "import sys; from moto.server import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "-H", "127.0.0.1", "-p", str(port)]
    with served(command, f"http://127.0.0.1:{port}", folder) as url:
        yield url


@contextlib.contextmanager
def gcs_emulator(folder: Path, bucket: str) -> Iterator[str]:
    """A GCS emulator with one bucket, in memory. Skips where it is not installed."""
    _need("gcp_storage_emulator", "gcsfs")
    port = free_port()
    code = "import sys; from gcp_storage_emulator.__main__ import main; sys.exit(main(sys.argv[1:]))"
    options = ["start", "--host=127.0.0.1", f"--port={port}", "--in-memory", f"--default-bucket={bucket}"]
    with served([sys.executable, "-c", code, *options], f"http://127.0.0.1:{port}", folder) as url:
        yield url


def keys(url: str, bucket: str) -> list[str]:
    """Names of everything in a bucket of the S3 server."""
    import boto3

    client = boto3.client("s3", endpoint_url=url)
    return [entry["Key"] for entry in client.list_objects_v2(Bucket=bucket).get("Contents", [])]


def use_test_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in list(os.environ):
        if name.startswith(("AWS_PROFILE", "AWS_ENDPOINT")):
            monkeypatch.delenv(name)


Opened = tuple[str, str | None]  # a place, and the endpoint to give with it


@contextlib.contextmanager
def _folder_place(folder: Path, _: pytest.MonkeyPatch) -> Iterator[Opened]:
    yield str(folder / "there"), None


@contextlib.contextmanager
def _s3_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    use_test_credentials(monkeypatch)
    with s3_server(folder) as url:
        import boto3

        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="there")
        yield "s3://there/prefix", url


@contextlib.contextmanager
def _gcs_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    with gcs_emulator(folder, "there") as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        yield "gs://there/prefix", None


# For each backend a real server to store to, of this machine.
PLACES: dict[str, Callable[[Path, pytest.MonkeyPatch], contextlib.AbstractContextManager[Opened]]] = {
    "file": _folder_place,
    "s3": _s3_place,
    "gs": _gcs_place,
}
