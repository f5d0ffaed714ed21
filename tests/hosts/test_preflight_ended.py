"""A preflight whose Ansible ends between a host's probe and its second try of other hosts' ports."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from raybench.hosts import preflight
from raybench.hosts.inventory import parse_inventory
from raybench.hosts.playbook import PlaybookEvent, PlaybookOutcome
from tests.preflight.hosts import facts, value

AGAIN = "preflight : Try ports that no host answered at while it was probed"


def attempt(host: str, answer: str) -> dict[str, Any]:
    return {"host": host, "port": 6379, "answer": answer, "seconds": 0.1}


def probed(host: str, reached: list[dict[str, Any]], *, all_: bool) -> PlaybookEvent:
    """The event of a host's probe, on which the port was open."""
    packed = base64.b64encode(zlib.compress(json.dumps(facts({"listening": value({"6379": "listening"})})).encode()))
    result = {"packed": packed.decode(), "reached": reached, "reached_all": all_}
    return PlaybookEvent(kind="ok", host=host, task=f"preflight : {preflight.GATHER_TASK}", result=result)


def ports_of(events: list[PlaybookEvent], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The verdict on ports of each host, after these events and a SIGKILL of ansible-playbook."""
    (folder / "hosts.yml").write_text("all: {hosts: {a: , b: }}\n")
    inventory = parse_inventory({"all": {"hosts": ["a", "b"]}}, (str(folder / "hosts.yml"),))

    def killed(*_: object, check_inventory: Any, on_event: Any, **__: object) -> PlaybookOutcome:
        check_inventory({})
        for event in events:
            on_event(event)
        return PlaybookOutcome(return_code=-9, status="failed", hosts=())

    monkeypatch.setattr(preflight, "run_playbook", killed)
    monkeypatch.setattr(preflight, "read_inventory", lambda *_, **__: inventory)
    report = preflight.run_preflight([folder / "hosts.yml"], begin=lambda _: folder)
    return {
        host.host: check.verdict + (" as it was not tried again" if "tried again" in check.seen else "")
        for host in report.hosts
        for check in host.checks
        if check.check == "host-ports"
    }


@pytest.mark.parametrize(
    ("first", "again", "wanted"),
    [
        ("refused", [], "unknown as it was not tried again"),  # b tried before a listened
        ("refused", [PlaybookEvent(kind="unreachable", host="b", task=AGAIN)], "unknown as it was not tried again"),
        ("refused", [PlaybookEvent(kind="ok", host="b", task=AGAIN, result={"reached": [attempt("a", "refused")]})],
         "fail"),
        ("refused", [PlaybookEvent(kind="ok", host="b", task=AGAIN, result={"reached": [attempt("a", "connected")]})],
         "pass"),
        ("refused", [PlaybookEvent(kind="ok", host="b", task=AGAIN, result={"reached": [{"host": 1}]})],
         "unknown as it was not tried again"),  # of another form than the probe gives it
        ("connected", [], "pass"),
    ],
)  # fmt: skip
def test_ports_that_were_tried_once_prove_nothing(
    first: str, again: list[PlaybookEvent], wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = first == "connected"
    events = [probed("a", [attempt("b", "connected")], all_=True), probed("b", [attempt("a", first)], all_=everything)]
    assert ports_of([*events, *again], tmp_path, monkeypatch) == {"a": "pass", "b": wanted}


def test_a_host_of_which_no_try_came_home_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [probed("a", [attempt("b", "connected")], all_=True), probed("b", [], all_=False)]
    assert ports_of(events, tmp_path, monkeypatch)["b"].startswith("unknown")
