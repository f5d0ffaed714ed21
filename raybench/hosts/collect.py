"""Fetching logs and facts of all hosts into one run's folder: hosts side by side, each on its own."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from raybench.hosts.collect_host import HostFolder, HostReport, StoppedError
from raybench.hosts.collected_names import local_part
from raybench.hosts.host_facts import COMMAND_SECONDS, OUTPUT_BYTES, ask_facts, boot_id_of, summary_of
from raybench.hosts.inventory import Host
from raybench.hosts.remote_files import LocalFiles
from raybench.hosts.sftp import SftpFiles
from raybench.hosts.ssh import SshError, answer_of, connected, target_of

ATTEMPTS = 4
_PAUSE_SECONDS = 1.0
# Where NCCL's and PyTorch's logs mostly are, and those of raybench's own runs and of its Ray nodes.
DEFAULT_PATTERNS = (
    "/tmp/nccl*",
    "/tmp/*/nccl*.log*",
    "/tmp/raybench-*/*-rank-*.log*",
    "/tmp/nccl_trace_rank_*",
    "/var/tmp/nccl*",
    "/var/log/nccl*",
    "/var/lib/raybench/ray.log",
    "/var/lib/raybench/s/session_2*/logs/*",
    "/var/tmp/raybench-*/ray.log",
    "/var/tmp/raybench-*/s/session_2*/logs/*",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectPlan:
    """What is fetched from every host. ``seconds`` is the time of one host, its further attempts included."""

    folder: Path
    patterns: tuple[str, ...] = DEFAULT_PATTERNS
    file_limit_bytes: int
    host_limit_bytes: int
    seconds: float
    ssh_config: Path | None = None
    accept_new: bool = False


def collect(
    hosts: Sequence[Host],
    plan: CollectPlan,
    *,
    workers: int,
    stop: threading.Event,
    on_host: Callable[[HostReport], None] = lambda _: None,
) -> list[HostReport]:
    """Fetch from all hosts, ``workers`` of them at a time. Every host has its report, in the order given.

    Setting ``stop`` ends the transfers; what was fetched until then is kept.
    """
    reports: dict[str, HostReport] = {}
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="collect") as pool:
        waiting = {pool.submit(collect_host, host, plan, stop.is_set): host for host in hosts}
        for future in as_completed(waiting):
            report = future.result()
            reports[report.name] = report
            on_host(report)
    return [reports[host.name] for host in hosts]


def collect_host(host: Host, plan: CollectPlan, stopped: Callable[[], bool]) -> HostReport:
    """Fetch from one host, again where the connection is cut: what is here already is not fetched twice."""
    report = HostReport(name=host.name)
    try:
        folder = HostFolder(
            path=plan.folder / "hosts" / local_part(host.name),
            report=report,
            file_limit_bytes=plan.file_limit_bytes,
            host_limit_bytes=plan.host_limit_bytes,
            stopped=stopped,
            deadline=time.monotonic() + plan.seconds,
        )
        _attempts(host, plan, folder)
        report.status = "partial" if folder.reached else "unreachable"
        if folder.reached and not report.problems and all(file.complete for file in report.files):
            report.status = "complete"
        folder.save()
    except OSError as error:
        report.fail(f"this machine: {error}")
    except Exception as error:  # noqa: BLE001 - one host never keeps the others' files from being kept
        report.fail(f"it failed, please report this: {type(error).__name__}: {error}")
    return report


def _attempts(host: Host, plan: CollectPlan, folder: HostFolder) -> None:
    """Try until all is here, a few times. Why it did not come to that is in the report."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _visit(host, plan, folder)
        except SshError as error:
            if not error.cut or attempt == ATTEMPTS or folder.stopped() or time.monotonic() > folder.deadline:
                folder.report.complain(str(error) if attempt == 1 else f"{error} (attempt {attempt})")
                return
            time.sleep(_PAUSE_SECONDS * attempt)
        except StoppedError as error:
            folder.report.complain(str(error))
            return
        else:
            return


def _visit(host: Host, plan: CollectPlan, folder: HostFolder) -> None:
    """One connection to a host, and all that is missing over it. Raises SshError and StoppedError."""
    if host.variables.get("ansible_connection") == "local":
        folder.reached = True
        _keep_facts(folder, _ask_here)
        folder.fetch_all(LocalFiles(), plan.patterns)
        return
    with connected(target_of(host, config_file=plan.ssh_config, accept_new=plan.accept_new)) as client:
        folder.reached = True

        def ask(command: str) -> tuple[int, bytes]:
            return answer_of(client, command, seconds=COMMAND_SECONDS, limit_bytes=OUTPUT_BYTES)

        folder.note_boot(boot_id_of(ask))
        if not folder.report.facts:
            _keep_facts(folder, ask)
        folder.fetch_all(SftpFiles(client), plan.patterns)


def _keep_facts(folder: HostFolder, ask: Callable[[str], tuple[int, bytes]]) -> None:
    answers = ask_facts(ask)
    place = folder.path / "facts"
    place.mkdir(mode=0o700, exist_ok=True)
    for name, output in answers.items():
        (place / f"{name}.txt").write_bytes(output)
    folder.report.facts = summary_of(answers)


def _ask_here(command: str) -> tuple[int, bytes]:
    try:
        answer = subprocess.run(
            ["/bin/sh", "-c", command],
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, b""
    return answer.returncode, answer.stdout[:OUTPUT_BYTES]
