"""The agent: takes a host through its tests, round after round, together with its partners' agents.

One agent a host runs detached from Ansible, so that all hosts measure at once whatever the number of forks. It ends by
itself when its work is done and fetched, when nobody has asked for a lease's time, or at its deadline, and every
process that it started ends with it. A round begins on a host when its last one is over; a server is started when its
client asks for it, and ended when the client is done.

The work, as the control node planned it::

    {"token", "folder", "address", "control_port", "ports": [first, last], "seconds": D, "limit_seconds", "streams",
     "start_seconds", "ready_seconds", "patience_seconds", "lease_seconds", "deadline_seconds",
     "peers": {name: [address, control port]},
     "commands": {key: {"kind": "process" | "stream", "server": [...], "client": [...], "environment": {},
                        "keep_from": "#bytes", "counters": [folder, ...]}},
     "rounds": [[number, [[[test, role, peer, key], ...], ...]], ...]}

A round holds lanes that run at the same time; the tests of a lane run one after the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time

from ansible.module_utils.raybench_fabric_child import Child, listening_ports
from ansible.module_utils.raybench_fabric_end import is_free, shuffled
from ansible.module_utils.raybench_fabric_stream import Receiver, send
from ansible.module_utils.raybench_fabric_talk import Listener, ask
from ansible.module_utils.raybench_host.files import file_number

_PEEK_SECONDS = 2.0


class Agent:
    """A host's part of a run."""

    def __init__(self, work):
        self._work = work
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._stopped, self._why = threading.Event(), "the run was stopped"
        self._open = {}  # test -> Serving
        self._over = set()
        self._taken = set()  # ports in use by our own servers
        self._children = set()
        self._silent_since = {}

    def run(self):
        """Do everything, wait until it is fetched, and leave nothing behind but the results."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._stopped.set())
        listener = Listener(self._work["address"], self._work["control_port"], self._work["token"], self._answer)
        self._note("started", "")
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            for number, lanes in self._work["rounds"]:
                if self._stopped.is_set():
                    break
                self._round(number, lanes)
            self._note("rounds", "all")
            self._stopped.wait(self._left())
        finally:
            listener.close()
            self._stopped.set()
            for child in list(self._children):
                child.end()
            self._note("ended", "")

    def _round(self, number, lanes):
        threads = [threading.Thread(target=self._lane, args=(number, lane), daemon=True) for lane in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._note("rounds", str(number))

    def _lane(self, number, lane):
        for test, role, peer, key in lane:
            if self._stopped.is_set():
                return
            begun = time.monotonic()
            result = {"test": test, "role": role, "peer": peer, "key": key, "round": number}
            try:
                part = self._serve if role == "server" else self._call
                part(test, peer, self._work["commands"][key], result)
            except Exception as error:  # noqa: BLE001 - a test that breaks must not take the others with it
                result["problem"] = f"{type(error).__name__}: {error}"
            result["elapsed"] = round(time.monotonic() - begun, 3)
            with self._lock:
                self._over.add(test)
                self._open.pop(test, None)
                self._write(result)

    # the server's side

    def _serve(self, test, peer, command, result):
        serving = _Serving()
        with self._lock:
            self._open[test] = serving
        problem = self._until(serving.wanted, peer)
        if problem:
            result["problem"] = problem
            return
        before = counters(command["counters"])
        try:
            running = self._start_server(test, command, serving)
        except OSError as error:
            serving.fail(f"the server could not be started: {error}")
            result["problem"] = serving.problem
            return
        if serving.problem:
            result.update(problem=serving.problem, output=running.output()[-2000:], code=running.code)
        else:
            late = self._until(serving.done, peer, self._work["limit_seconds"] + self._work["ready_seconds"])
            if late:
                result["problem"] = late
        self._end_server(command, running, serving, result)
        result["counters"] = changed(before, counters(command["counters"]))

    def _start_server(self, test, command, serving):
        port = self._free_port()
        if command["kind"] == "stream":
            running = Receiver(self._work["address"], port, self._work["streams"])
            serving.ready(port)
            return running
        running = self._child(command["server"], f"server-{test}", command, port, "")
        end = time.monotonic() + self._work["ready_seconds"]
        while running.code is None and port not in listening_ports() and time.monotonic() < end:
            if self._stopped.wait(0.1):
                break
        if running.code is None and port in listening_ports():
            serving.ready(port)
        else:
            why = f"ended with status {running.code}" if running.code is not None else "does not listen"
            serving.fail(f"the server {why} before the test began: {last_line(running.output())}")
        return running

    def _end_server(self, command, running, serving, result):
        if command["kind"] == "stream":
            serving.figure = running.end()
            result["output"] = serving.figure
        else:
            running.wait(2.0 if not serving.problem else 0.0, self._stopped.is_set)
            result["code"] = running.end()
            result.setdefault("output", running.output(command["keep_from"])[-1500:])
            self._forget(running)
        with self._lock:
            self._taken.discard(serving.port)
        serving.closed.set()

    def _free_port(self):
        with self._lock:
            for port in shuffled(self._work["ports"]):
                if port != self._work["control_port"] and port not in self._taken and is_free(port):
                    self._taken.add(port)
                    return port
        raise OSError("no port from {} to {} is free".format(*self._work["ports"]))

    # the client's side

    def _call(self, test, peer, command, result):
        answer = self._opened(test, peer)
        if answer.get("state") != "ready":
            result["problem"] = answer.get("why", "the partner gave no reason")
            return
        address, before = self._work["peers"][peer][0], counters(command["counters"])
        try:
            if command["kind"] == "stream":
                stopped = self._stopped.is_set
                send(address, answer["port"], self._work["seconds"], self._work["streams"], stopped)
            else:
                self._call_process(test, command, address, answer["port"], result)
        except OSError as error:
            result["problem"] = "{} port {}: {}".format(address, answer["port"], error)
        result["counters"] = changed(before, counters(command["counters"]))
        with contextlib.suppress(OSError):
            said = self._ask(peer, "done", test, 6.0)
            if command["kind"] == "stream" and said.get("figure"):
                result["output"] = said["figure"]

    def _call_process(self, test, command, address, port, result):
        running = self._child(command["client"], f"client-{test}", command, port, address)
        limit = self._work["limit_seconds"]
        if running.wait(limit, self._stopped.is_set) is None:
            running.end()
            why = self._why if self._stopped.is_set() else f"it did not end within {limit} s"
            result["problem"] = why
        result["code"] = running.code
        result["output"] = running.output(command["keep_from"] if running.code == 0 else "")
        self._forget(running)

    def _opened(self, test, peer):
        """The partner's word that its server listens, or why it does not."""
        pause = 0.05
        while not self._stopped.is_set():
            try:
                answer = self._ask(peer, "open", test)
            except OSError as error:
                problem = self._silence(peer, error)
                if problem:
                    return {"why": problem}
            else:
                self._silent_since[peer] = None
                if answer.get("state") != "wait":
                    return answer
            self._stopped.wait(pause)
            pause = min(0.4, pause * 1.5)
        return {"why": self._why}

    # both

    def _child(self, argv, name, command, port, peer):
        words = [word.replace("{port}", str(port)).replace("{peer}", peer) for word in argv]
        child = Child(words, self._work["folder"], name, command.get("environment", {}))
        self._children.add(child)
        return child

    def _forget(self, child):
        child.forget()
        self._children.discard(child)

    def _until(self, event, peer, seconds=None):
        """Wait for something that the partner does. Returns why it will not come, or None when it came."""
        end = None if seconds is None else time.monotonic() + seconds
        peeked = time.monotonic()
        while not event.wait(0.2):
            if self._stopped.is_set():
                return self._why
            if end is not None and time.monotonic() > end:
                return "the partner was not done in time"
            if time.monotonic() - peeked > _PEEK_SECONDS:
                peeked = time.monotonic()
                problem = self._peek(peer)
                if problem:
                    return problem
        return None

    def _peek(self, peer):
        try:
            self._ask(peer, "alive", "")
        except OSError as error:
            return self._silence(peer, error)
        self._silent_since[peer] = None
        return None

    def _silence(self, peer, error):
        """Why a partner is given up, or None while it may still come: some start later than others."""
        now = time.monotonic()
        if self._silent_since.get(peer) is None:
            self._silent_since[peer] = now
        starting = now - self._begun < self._work["start_seconds"]
        if starting or now - self._silent_since[peer] < self._work["patience_seconds"]:
            return None
        address, port = self._work["peers"][peer]
        return f"{address}, port {port}, does not answer: {error}"

    def _ask(self, peer, what, test, seconds=0.0):
        address, port = self._work["peers"][peer]
        seconds = max(seconds, 0.75 * self._work["patience_seconds"])
        return ask(address, port, {"token": self._work["token"], "ask": what, "test": test}, seconds)

    def _answer(self, question):
        what, test = question.get("ask"), question.get("test")
        with self._lock:
            serving, over = self._open.get(test), test in self._over
        if what == "alive":
            return {"state": "alive"}
        if serving is None:
            return {"state": "over", "why": "the partner had given the test up"} if over else {"state": "wait"}
        if what == "open":
            return serving.opened()
        serving.done.set()
        serving.closed.wait(5.0)
        return {"state": "closed", "figure": serving.figure}

    def _left(self):
        return max(0.0, self._work["deadline_seconds"] - (time.monotonic() - self._begun))

    def _watch(self):
        """End when nobody has fetched anything for a lease's time, when told to, and at the deadline."""
        lease, seen, since = os.path.join(self._work["folder"], "lease"), None, time.monotonic()
        while not self._stopped.wait(0.5):
            with contextlib.suppress(OSError):
                touched = os.stat(lease).st_mtime
                if touched != seen:  # its value may jump with the host's clock; that it changes is what counts
                    seen, since = touched, time.monotonic()
                if time.monotonic() - since > self._work["lease_seconds"]:
                    self._stop("nobody asked for results for {} s".format(self._work["lease_seconds"]))
            if self._left() <= 0:
                self._stop("the time for the whole test was over")
            if not os.path.exists(lease):
                self._stop("its folder was removed")

    def _stop(self, why):
        self._why = why
        self._stopped.set()

    def _write(self, result):
        with open(os.path.join(self._work["folder"], "results"), "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")

    def _note(self, name, text):
        path = os.path.join(self._work["folder"], name)
        with contextlib.suppress(OSError):
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(path + ".new", path)


class _Serving:
    """One test of which this host is the server."""

    def __init__(self):
        self.wanted, self.done, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.port, self.problem, self.figure = None, None, ""

    def opened(self):
        self.wanted.set()
        if self.problem:
            return {"state": "failed", "why": self.problem}
        return {"state": "wait"} if self.port is None else {"state": "ready", "port": self.port}

    def ready(self, port):
        self.port = port

    def fail(self, why):
        self.problem = why


def counters(folders):
    """Every counter in some folders of sysfs that can be read as a number."""
    found = {}
    for folder in folders:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            found[name] = file_number(os.path.join(folder, name))
    return {name: value for name, value in found.items() if value is not None}


def changed(before, after):
    """{name: [before, after]} of counters that are not what they were."""
    return {name: [before[name], after[name]] for name in after if name in before and before[name] != after[name]}


def last_line(text):
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t-*")]
    return lines[-1][:300] if lines else "it printed nothing"
