"""Running one of our playbooks through ansible-runner, and what came of it on each host.

The run has a private folder that goes with it: nothing of it, variables included, is left on the disk. Events are
handed on as they come and not stored. However the run ends, its processes and ssh's control sockets end with it.
"""

import contextlib
import re
import secrets
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from raybench.errors import UsageError
from raybench.hosts.ansible_setup import INSTALL, ansible_program, ansible_settings, playbook_path
from raybench.hosts.extra_variables import variables_file, variables_text
from raybench.hosts.held_start import HeldStart, held_start
from raybench.hosts.inventory import Inventory, error_of
from raybench.hosts.playbook_guard import guarded
from raybench.processes.interrupt import Interrupt
from raybench.processes.owned_processes import MARK, end_marked
from raybench.processes.scratch_folder import SHORT_PREFIX, passing_scratch_folder

PlaybookStatus = Literal["successful", "failed", "timeout", "canceled"]
_POLL_SECONDS = 0.5
_HELD = "raybench_held"  # Ansible reads the pipe again, and waits for ever, where no variable came out of it
_TAIL_CHARACTERS = 4000
_LONGEST_PARENT = 28  # of a socket's 104 letters, 76 are the folder's name, "cp", ssh's hash and its random suffix
_OUT_OF_TIME = re.compile(r"Timed out after \d+ second|in the expected time frame")  # Ansible 2.19, and before
# Of a process that a signal ended ansible-runner keeps no status; of the shell's it does: 128 and the signal's number.
_SHELL = ("/bin/sh", "-c", '"$@"; exit $?', "raybench")
_BY_SIGNAL = 128
_COUNTS = {"ok": "ok", "changed": "changed", "failures": "failed", "dark": "unreachable", "skipped": "skipped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookEvent:
    """Something that happened while a playbook ran.

    ``kind`` is ansible-runner's name for it without ``runner_on_`` or ``playbook_on_``: ok, failed, unreachable,
    skipped, task_start, stats, ... ``result`` is what the module returned; empty for what is no host's.
    """

    kind: str
    host: str = ""
    task: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailure:
    """A task that failed on a host, or could not reach it, and what it said."""

    task: str
    message: str
    unreachable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOutcome:
    """Tasks of one host, counted as Ansible's recap does. ``failures`` holds ignored ones as well."""

    name: str
    ok: int = 0
    changed: int = 0
    failed: int = 0
    unreachable: int = 0
    skipped: int = 0
    failures: tuple[TaskFailure, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether the host was reached and no task failed on it."""
        return not self.failed and not self.unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaybookOutcome:
    """How a playbook ended. ``return_code`` is ansible-playbook's; ``output_tail`` the end of what it printed.

    A run that reached no host at all is ``failed``, whatever Ansible's own status says. ``through``: Ansible came to
    its recap, so that all of its tasks are over.
    """

    return_code: int | None
    status: PlaybookStatus
    hosts: tuple[HostOutcome, ...]
    output_tail: str = ""
    through: bool = False

    @property
    def error(self) -> str:
        """Ansible's own error, where a run failed before or beside its tasks."""
        return error_of(self.output_tail)

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended Ansible itself before it was through; what hosts had not told by then is not known."""
        return self.status == "failed" and not self.through and self._signal is not None

    @property
    def killed(self) -> str:
        """``Ansible (ansible-playbook) was ended by SIGKILL``; empty where no signal ended it."""
        return f"Ansible (ansible-playbook) was ended by {self._signal}" if self.was_killed else ""

    @property
    def _signal(self) -> str | None:
        """Its name; ``a signal`` where nothing tells which, as the shell that waits for Ansible was ended as well."""
        if self.return_code is None:
            return "a signal"
        try:
            return signal.Signals(self.return_code - _BY_SIGNAL).name
        except ValueError:
            return None


@dataclass(slots=True)
class _Tally:
    """What the events of a run add up to."""

    on_event: Callable[[PlaybookEvent], None] | None
    stats: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    failures: dict[str, list[TaskFailure]] = field(default_factory=dict)
    trouble: BaseException | None = None
    held: HeldStart | None = None

    @property
    def in_trouble(self) -> bool:
        """Whether somebody here wants the run to end."""
        return self.trouble is not None or (self.held is not None and self.held.trouble is not None)

    def take(self, raw: Mapping[str, Any]) -> bool:
        """Take an event of ansible-runner; False, so that it keeps no file of it."""
        event = event_from(raw)
        if event.kind == "stats":
            self.stats = raw["event_data"]
        if event.kind in {"failed", "unreachable", "item_failed"}:
            failure = TaskFailure(
                task=event.task, message=message_of(event.result), unreachable=event.kind == "unreachable"
            )
            self.failures.setdefault(event.host, []).append(failure)
        if self.on_event is not None and self.trouble is None:
            try:
                self.on_event(event)
            except BaseException as error:  # noqa: BLE001 - raised again once the run has ended
                self.trouble = error
        return False

    @property
    def has_timeouts(self) -> bool:
        """Whether a task ran out of its own time limit."""
        said = (one.message for failures in self.failures.values() for one in failures)
        return any(_OUT_OF_TIME.search(message) for message in said)

    def hosts(self) -> tuple[HostOutcome, ...]:
        names = {name: None for key in _COUNTS for name in self.stats.get(key, {})} | dict.fromkeys(self.failures)
        return tuple(
            HostOutcome(
                name=name,
                failures=tuple(self.failures.get(name, ())),
                **{ours: self.stats.get(theirs, {}).get(name, 0) for theirs, ours in _COUNTS.items()},
            )
            for name in names
        )


def run_playbook(
    name: str | Path,
    *,
    inventory: Inventory | Sequence[str],
    variables: Mapping[str, Any] | None = None,
    check_inventory: Callable[[Mapping[str, str]], None] | None = None,
    limit: str | None = None,
    tags: Sequence[str] = (),
    skip_tags: Sequence[str] = (),
    check: bool = False,
    diff: bool = False,
    forks: int | None = None,
    timeout_seconds: float = 3600.0,
    on_event: Callable[[PlaybookEvent], None] | None = None,
    stop: threading.Event | None = None,
) -> PlaybookOutcome:
    """Run a playbook of ours (``preflight``), or of a path, on an inventory that ``read_inventory`` has checked.

    Or on the sources of one that ``check_inventory`` checks while Ansible starts: no host is contacted before it is
    done, and what it raises ends the run and is raised. It is handed environment variables for what it starts.

    ``variables`` win over the inventory's; no string in them is taken for a template. In the main thread Ctrl-C and
    SIGTERM end the run, elsewhere setting ``stop`` does; the status is then ``canceled``. An exception of ``on_event``
    is raised after the run was ended. Raises UsageError where Ansible is not installed.
    """
    path = name if isinstance(name, Path) else playbook_path(name)
    settings = {
        "playbook": str(path.absolute()),
        "inventory": list(inventory.sources if isinstance(inventory, Inventory) else inventory),
        "cmdline": " ".join(_flags(tags, skip_tags, check=check, diff=diff)) or None,
        "limit": limit,
        "forks": forks,
    }
    tally = _Tally(on_event=on_event)
    with _private_folder() as folder, _interrupts(stop) as stopped:
        run = _Run(folder=folder, settings=settings, tally=tally, stopped=stopped, timeout_seconds=timeout_seconds)
        held = None if check_inventory is None else run.held(variables or {}, check_inventory)
        outcome = held or run.with_variables(variables or {})
    if tally.trouble is not None:
        raise tally.trouble
    return outcome


def contact_variables(host_timeout_seconds: float | None) -> dict[str, float]:
    """What ``contact.yml`` is told of how long logging in to a host may take; nothing leaves it to the inventory."""
    return {} if host_timeout_seconds is None else {"raybench_host_timeout_seconds": host_timeout_seconds}


def _flags(tags: Sequence[str], skip_tags: Sequence[str], *, check: bool, diff: bool) -> Iterator[str]:
    for option, values in (("--tags", tags), ("--skip-tags", skip_tags)):
        for value in values:
            if not value.replace("_", "").replace("-", "").isalnum():
                raise UsageError(f"{value!r} is not a tag: letters, digits, dashes and underscores only")
        if values:
            yield f"{option} {','.join(values)}"
    if check:
        yield "--check"
    if diff:
        yield "--diff"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One call of ansible-runner in a private folder. ``token`` marks the processes that are its own."""

    folder: Path
    settings: Mapping[str, Any]
    tally: _Tally
    stopped: threading.Event
    timeout_seconds: float
    token: str = field(default_factory=lambda: secrets.token_hex(16))

    def with_variables(self, variables: Mapping[str, Any]) -> PlaybookOutcome:
        variables_file(self.folder / "env" / "extravars", variables)
        return self._run(self.settings)

    def held(self, variables: Mapping[str, Any], check: Callable[[Mapping[str, str]], None]) -> PlaybookOutcome:
        """The same, with variables that Ansible gets once ``check`` is done."""
        pipe = self.folder / "variables"
        words = [self.settings["cmdline"], f"--extra-vars {shlex.quote(f'@{pipe}')}"]
        text = variables_text({**variables, _HELD: True})
        with held_start(pipe, lambda: check({MARK: self.token}), text) as held:
            self.tally.held = held
            outcome = self._run({**self.settings, "cmdline": " ".join(filter(None, words))})
        if held.trouble is not None and not self.stopped.is_set():
            self.tally.trouble = held.trouble
        return outcome

    def _run(self, settings: Mapping[str, Any]) -> PlaybookOutcome:
        runner = _runner_module()
        ansible_program("ansible-playbook")
        control = self.folder / "cp"
        finished = False
        try:
            with guarded(self.token, self.folder):
                ended = runner.interface.init_runner(
                    private_data_dir=str(self.folder),
                    project_dir=str(self.folder),
                    envvars=ansible_settings() | {MARK: self.token, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control)},
                    settings={"pexpect_timeout": _POLL_SECONDS, "job_timeout": max(1, round(self.timeout_seconds))},
                    event_handler=self.tally.take,
                    cancel_callback=lambda: self.stopped.is_set() or self.tally.in_trouble,
                    quiet=True,
                    **{key: value for key, value in settings.items() if value is not None},
                )
                ended.config.command = [*_SHELL, *ended.config.command]
                ended.run()
            outcome = _outcome(ended, self.tally)
            # Ansible leaves the connection of a task that ran out of time, and its workers where it is killed
            whole = ended.status in {"successful", "failed"} and not outcome.was_killed
            finished = whole and not self.tally.has_timeouts
            return outcome
        finally:
            _close_masters(control)
            if not finished:
                end_marked(self.token)


def _runner_module() -> Any:
    try:
        import ansible_runner  # heavy, and optional
    except ImportError as error:
        raise UsageError(f"ansible-runner is not installed: {INSTALL}") from error
    return ansible_runner


def _outcome(ended: Any, tally: _Tally) -> PlaybookOutcome:
    hosts = tally.hosts()
    status: PlaybookStatus = ended.status if ended.status in {"timeout", "canceled"} else "failed"
    if ended.status == "successful" and hosts and all(host.clean for host in hosts):
        status = "successful"
    with ended.stdout as stream:
        tail = str(stream.read())[-_TAIL_CHARACTERS:]
    return PlaybookOutcome(
        return_code=ended.rc, status=status, hosts=hosts, output_tail=tail, through=bool(tally.stats)
    )


def _close_masters(control: Path) -> None:
    """Have ssh's masters end and take their sockets with them."""
    for path in control.iterdir() if control.is_dir() else ():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            command = ["ssh", "-O", "exit", "-o", f"ControlPath={path}", "playbook"]
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder that only this user can read, removed at the end.

    Its path is short, in /tmp where TMPDIR is long: ssh's sockets lie in it, whose paths may have 104 letters.
    """
    long = len(tempfile.gettempdir()) > _LONGEST_PARENT
    with passing_scratch_folder("/tmp" if long else None, SHORT_PREFIX) as folder:
        for name in ("env", "cp"):
            (folder / name).mkdir(mode=0o700)
        yield folder


@contextlib.contextmanager
def _interrupts(stop: threading.Event | None) -> Iterator[threading.Event]:
    """The event that ends the run: the caller's, or one that signals set."""
    if stop is not None or threading.current_thread() is not threading.main_thread():
        yield stop or threading.Event()
        return
    with Interrupt().installed() as interrupt, interrupt.deferred():
        yield interrupt.event


def event_from(raw: Mapping[str, Any]) -> PlaybookEvent:
    """An event from one of ansible-runner's."""
    data = raw.get("event_data", {})
    kind = str(raw.get("event", "")).removeprefix("runner_on_").removeprefix("playbook_on_").removeprefix("runner_")
    result = data.get("res")
    return PlaybookEvent(
        kind=kind,
        host=str(data.get("host", "")),
        task=str(data.get("task", "")),
        result=result if isinstance(result, dict) else {},
    )


def message_of(result: Mapping[str, Any]) -> str:
    """What a failed task said, on one line where it can be."""
    parts = [result.get(key) for key in ("msg", "stderr", "module_stderr")]
    texts = dict.fromkeys(str(part).strip() for part in parts if part)
    return "; ".join(texts)[:_TAIL_CHARACTERS] or "it failed without a message"
