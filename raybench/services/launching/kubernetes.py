"""``raybench launch kubernetes``: apply the manifests, follow the pods, say what keeps them, bring the results home."""

import json
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.errors import IncompleteRunError, UsageError
from raybench.launchers.command_words import check_words
from raybench.launchers.kubernetes.frame import unpacked, without_frame
from raybench.launchers.kubernetes.manifests import CONTAINER, RUN_LABEL, as_yaml, kind_of, manifests
from raybench.launchers.kubernetes.pod_task import END
from raybench.launchers.kubernetes.request import FORMS, KubernetesRequest, pairs, shm_of
from raybench.launchers.kubernetes.signs import Sign
from raybench.launchers.kubernetes.status import (
    JobStatus,
    items_of,
    names_of,
    pods_in_brief,
    signs_of_events,
    signs_of_pods,
    signs_of_workloads,
    status_of,
)
from raybench.launchers.kubernetes.trouble import of_kubectl, troubles
from raybench.processes.interrupt import Interrupt
from raybench.whole_file import write_whole

__all__ = ["FORMS", "KubernetesRequest", "Launched", "bring_home", "follow", "pairs", "planned", "shm_of", "submit"]

_ASK_SECONDS = 30.0
_LOG_SECONDS = 300.0
_POLL_SECONDS = 5.0
_SILENT_SECONDS = 300.0
_MOST_LOG_BYTES = 2**30
LOG = "kubernetes.log"
_END = re.compile(rf"{END} ([0-3])$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What became of a run. ``folder``: where log and results are here; ``reason``: why there is no whole result."""

    job: str
    exit_code: int
    folder: Path
    results: tuple[Path, ...]
    reason: str = ""


def planned(request: KubernetesRequest, words: Sequence[str]) -> str:
    """The manifests as kubectl takes them. Raises UsageError."""
    _check(request, words)
    return as_yaml(manifests(request, request.name, words))


def submit(request: KubernetesRequest, words: Sequence[str]) -> str:
    """Create the objects. Returns the job's name. Raises UsageError where the cluster refuses them."""
    _check(request, words)
    if shutil.which("kubectl") is None:
        raise UsageError("kubectl is not there: install it, or apply by other means what --dry-run prints")
    job = f"{request.name}-{secrets.token_hex(3)}"
    done = _kubectl(request, "create", "-f", "-", text_in=as_yaml(manifests(request, job, words)))
    if done.returncode:
        known = of_kubectl(done.stderr)
        said = " ".join(done.stderr.split())[:1000]
        _delete(request, job)
        raise UsageError(f"{known.what}. {known.advice}" if known else f"Kubernetes does not take it: {said}")
    return job


def _check(request: KubernetesRequest, words: Sequence[str]) -> None:
    check_words(words)
    if request.form == "pods" and words[0] == "study":
        raise UsageError("a study starts ranks many times, which torchrun in pods does not: add --form rayjob")


def follow(
    request: KubernetesRequest, job: str, *, interrupt: Interrupt, say: Callable[[str], None], output_dir: Path
) -> Launched:
    """Wait until the job has ended, saying what changes and what keeps it, and bring its results to ``output_dir``.

    The first Ctrl-C has the run end in order, the second deletes it. Raises IncompleteRunError where the API server
    does not answer any more.
    """
    status = _Follower(request=request, job=job, interrupt=interrupt, say=say).wait()
    return bring_home(request, job, output_dir, status)


def bring_home(request: KubernetesRequest, job: str, output_dir: Path, status: JobStatus | None) -> Launched:
    """The log of the pod that writes results, and the results in it. Nothing is deleted."""
    folder = output_dir / f"kubernetes-{job}"
    folder.mkdir(parents=True, exist_ok=True)
    lines = _log(request, job).splitlines()
    write_whole(folder / LOG, "\n".join(without_frame(lines)) + "\n")
    told = [int(found[1]) for line in lines if (found := _END.search(line))]
    reason = ""
    try:
        unpacked(lines, folder)
    except IncompleteRunError as error:
        reason = f"{error}; {_state(status)}its log: {folder / LOG}"
    results = tuple(sorted(path.parent for name in ("result", "study") for path in folder.glob(f"*/{name}.json")))
    code = told[-1] if told else 3
    return Launched(job=job, exit_code=code, folder=folder, results=results, reason=reason)


def _state(status: JobStatus | None) -> str:
    if status is None:
        return ""
    reason = f" ({status.reason})" if status.reason else ""
    return f"the job is {status.ended or 'not ended'}{reason}; "


def _log(request: KubernetesRequest, job: str) -> str:
    if request.form == "rayjob":
        place = [f"job/{job}"]
    else:
        place = [f"--selector={RUN_LABEL}={job},batch.kubernetes.io/job-completion-index=0", f"--container={CONTAINER}"]
    done = _kubectl(request, "logs", *place, "--tail=-1", seconds=_LOG_SECONDS)
    return done.stdout[:_MOST_LOG_BYTES] if done.returncode == 0 else ""


@dataclass(kw_only=True)
class _Follower:
    """Asks the API server about one job until it has ended."""

    request: KubernetesRequest
    job: str
    interrupt: Interrupt
    say: Callable[[str], None]
    _said: set[str] = field(default_factory=set)
    _asked_to_end: int = 0

    def wait(self) -> JobStatus | None:
        """The job once it has ended; None where it has gone."""
        heard = time.monotonic()
        while True:
            done = _kubectl(self.request, "get", kind_of(self.request), self.job, "-o", "json")
            if done.returncode == 0:
                heard = time.monotonic()
                status = status_of(json.loads(done.stdout))
                self._tell(status)
                if status.ended:
                    return status
            elif "NotFound" in done.stderr:
                return None
            elif time.monotonic() - heard > _SILENT_SECONDS:
                raise IncompleteRunError(
                    f"the API server has not answered for {_SILENT_SECONDS:.0f} s; job {self.job} may go on: "
                    f"'raybench launch kubernetes --fetch {self.job}' brings its results ({done.stderr.strip()[:300]})"
                )
            self._end_if_asked()
            (time.sleep if self._asked_to_end else self.interrupt.event.wait)(_POLL_SECONDS)

    def _tell(self, status: JobStatus) -> None:
        pods = self._items("pods", f"--selector={RUN_LABEL}={self.job}")
        self._once(f"job {self.job}: {'suspended, ' if status.suspended else ''}{pods_in_brief(pods)}")
        signs: list[Sign] = [*signs_of_pods(pods), *signs_of_events(self._items("events"), self.job)]
        if status.suspended and self.request.queue is not None:
            signs += signs_of_workloads(self._items("workloads.kueue.x-k8s.io"), self.job)
        for trouble in troubles(signs):
            self._once(trouble.text())

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def _items(self, kind: str, *options: str) -> list[dict[str, Any]]:
        done = _kubectl(self.request, "get", kind, *options, "-o", "json")
        return items_of(json.loads(done.stdout)) if done.returncode == 0 else []

    def _end_if_asked(self) -> None:
        received = self.interrupt.received
        if received <= self._asked_to_end:
            return
        first, self._asked_to_end = self._asked_to_end == 0, received
        if first and self.request.form == "pods":
            self.say(f"job {self.job} is told to end, and keeps what it has measured; once more deletes it")
            pods = self._items("pods", f"--selector={RUN_LABEL}={self.job},batch.kubernetes.io/job-completion-index=0")
            words = (f"--container={CONTAINER}", "--", "sh", "-c", "kill -TERM 1")
            for name in names_of(pods):
                _kubectl(self.request, "exec", name, *words)
        else:
            self.say(f"job {self.job} is deleted")
            _delete(self.request, self.job)


def _delete(request: KubernetesRequest, job: str) -> None:
    kinds = "rayjob" if request.form == "rayjob" else "job,service"
    _kubectl(request, "delete", kinds, job, "--ignore-not-found", "--wait=false")


def _kubectl(
    request: KubernetesRequest, *words: str, text_in: str | None = None, seconds: float = _ASK_SECONDS
) -> subprocess.CompletedProcess[str]:
    """One call within its time. One that hangs is an answer with status 124. Raises UsageError without kubectl."""
    space = [] if request.namespace is None else [f"--namespace={request.namespace}"]
    limit = f"--request-timeout={seconds:.0f}s"
    command = ["kubectl", *space, limit, *words]
    try:
        return subprocess.run(
            command, input=text_in, capture_output=True, text=True, errors="replace", timeout=seconds + 5, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"kubectl did not answer within {seconds:.0f} s")
    except OSError as error:
        raise UsageError(f"kubectl cannot be started: {error}") from error
