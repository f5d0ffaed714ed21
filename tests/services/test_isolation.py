"""What a command does with suspects: whom it drops, what it keeps, when it stops. The measurements are played."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from raybench.config import RunConfig
from raybench.documents.run.result import RunResult
from raybench.errors import NodeMissingError, UsageError
from raybench.processes.interrupt import Interrupt
from raybench.reports.csv import render_csv
from raybench.reports.html import render_html
from raybench.reports.isolation import isolation_lines
from raybench.reports.summary import summary_of
from raybench.run_folder import RunFolder, new_run_id
from raybench.services import run_files
from raybench.services.isolation import conduct as service
from raybench.services.one_run import FinishedRun, keep
from tests.peers.isolation.test_suspect import finding, left_open, run

Share = Callable[[str, str], float]


class Silent:
    """A display that remembers what stays on the screen."""

    said: list[str]

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def note(self, text: str) -> None:
        self.said.append(text)

    def start(self, *_: Any) -> None: ...
    def step(self, *_: Any) -> None: ...
    def progress(self, *_: Any) -> None: ...
    def close(self) -> None: ...


class Played:
    """Runs over nodes of which some are slow, as ``run_once`` and ``measured`` would do them."""

    def __init__(self, tmp_path: Path, bad: dict[str, float], *, missing: tuple[str, ...] = ()) -> None:
        self.path, self.bad, self.missing = tmp_path, bad, missing
        self.said: list[str] = []
        self.groups: list[tuple[str, ...]] = []
        self.runs: list[tuple[str, ...]] = []
        self.interrupt = Interrupt()
        self.stop_at: int | None = None
        self.lost: tuple[str, ...] = ()
        self.late = 0  # so many measurements are not over in time
        self.is_open: tuple[str, ...] = ()  # who stands out where nobody is accused

    def result(self, names: tuple[str, ...]) -> RunResult:
        share = [self.bad.get(name, 1.0) for name in names]
        told = [finding("slow-node", name) for name in names if name in self.bad and not self.is_open]
        told += [finding("node-lost", name) for name in names if name in self.lost]
        result = run(len(names), 1, *told, share=lambda pair: min(share[rank] for rank in pair), block_count=9)
        nodes = tuple(changed(node, name=name) for node, name in zip(result.cluster.nodes, names, strict=True))
        status = "partial" if set(names) & set(self.lost) else "complete"
        return changed(result, run_id=new_run_id(), status=status, cluster=changed(result.cluster, nodes=nodes))

    def once(self, config: RunConfig, *, display: Any, amend: Any = lambda result: result, **_: Any) -> FinishedRun:
        display()
        names = config.only_nodes or ("node1", "node2", "node3", "node4")
        self.runs.append(names)
        folder = RunFolder(str(self.path), new_run_id())
        folder.close()
        result = self.result(names)
        if set(self.is_open) <= set(names):
            result = changed(result, checks=(left_open(*self.is_open),) if self.is_open else ())
        return keep(amend(result), {}, folder)

    def measured(self, config: RunConfig, *rest: Any) -> Any:
        rest[-1]()
        self.groups.append(config.only_nodes)
        if self.stop_at == len(self.groups):
            self.interrupt.received += 1
        for name in config.only_nodes:
            if name in self.missing:
                raise NodeMissingError(name, "is not in the cluster")
        result = changed(self.result(config.only_nodes), findings=())
        if len(self.groups) <= self.late:
            result = changed(result, status="partial")

        class Record:
            logs: dict[str, bytes] = {}  # noqa: RUF012 - of this one record

            def result(self) -> RunResult:
                return result

        return Record()

    def isolating(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> FinishedRun:
        monkeypatch.setattr(service, "run_once", self.once)
        monkeypatch.setattr(service, "measured", self.measured)
        monkeypatch.setattr(run_files, "write_html", lambda *_: None)  # plots take seconds, and one test renders it
        config = RunConfig(**options)
        return service.run_isolating(config, interrupt=self.interrupt, display=lambda: Silent(self.said))


def outcomes(result: RunResult) -> list[tuple[str, str]]:
    assert result.isolation is not None
    return [(one.name, one.outcome) for one in result.isolation.suspects]


def test_a_clean_run_measures_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {})
    finished = played.isolating(monkeypatch, continue_without=True)
    assert (played.groups, len(played.runs), finished.result.isolation) == ([], 1, None)


def test_isolate_confirms_and_drops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {"node3": 0.3})
    finished = played.isolating(monkeypatch, isolate=True)
    assert outcomes(finished.result) == [("node3", "confirmed")]
    assert (len(played.groups), len(played.runs), finished.exit_code) == (2, 1, 1)
    assert "node3" in played.groups[0]
    assert "node3" not in played.groups[1]
    read = RunResult.read(finished.folder / "result.json", "the result")
    assert read.isolation == finished.result.isolation
    assert {one.rule for one in read.findings} == {"slow-node", "suspect-confirmed"}


def test_continue_without_goes_on_and_every_format_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {"node3": 0.3})
    finished = played.isolating(monkeypatch, continue_without=True, nodes=4)
    assert played.runs == [("node1", "node2", "node3", "node4"), ("node1", "node2", "node4")]
    result = finished.result
    assert (result.cluster.world_size, result.conclusion.verdict, finished.exit_code) == (3, "critical", 1)
    assert "node3 was dropped, measured on 3 of 4 nodes (3 of 4 ranks, --nodes 4 was not reached)" in (
        result.conclusion.reason
    )
    (line, *_) = isolation_lines(result)
    assert line.startswith("CONTINUED WITHOUT node3: 3 of 4 nodes, 3 of 4 ranks; --nodes 4 was not reached")
    assert "CONTINUED WITHOUT node3" in render_html(result)
    header, row, *_ = render_csv(result).splitlines()
    assert header.endswith(",dropped_nodes")
    assert row.endswith(",node3")
    assert summary_of(result)["dropped_nodes"] == ["node3"]
    read = RunResult.read(finished.folder / "result.json", "the result")
    assert read.continued == result.continued
    assert [one.node for one in read.cluster.dropped] == ["node3"]
    assert len(list(tmp_path.glob("*/result.json"))) == 2  # that with node3 is kept
    assert any("the run with node3 is in" in remark for remark in finished.remarks)


def test_two_bad_nodes_of_four_leave_two_and_not_fewer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {"node3": 0.3, "node4": 0.4})
    finished = played.isolating(monkeypatch, continue_without=True)
    assert played.runs[-1] == ("node1", "node2")
    again = Played(tmp_path, {"node3": 0.3, "node4": 0.4})
    finished = again.isolating(monkeypatch, continue_without=True, min_nodes=3)
    assert len(again.runs[-1]) == 3
    assert finished.exit_code == 1
    assert any("was not dropped" in line for path in tmp_path.glob("*/result.json")
               for line in isolation_lines(RunResult.read(path, "a result")))  # fmt: skip


def test_a_lost_node_is_dropped_without_another_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {})
    played.lost = ("node2",)
    finished = played.isolating(monkeypatch, continue_without=True)
    assert (played.groups, played.runs[-1]) == ([], ("node1", "node3", "node4"))
    assert (finished.result.status, finished.exit_code) == ("complete", 1)


def test_isolate_finds_a_lost_node_lost_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {}, missing=("node2",))
    played.lost = ("node2",)
    finished = played.isolating(monkeypatch, isolate=True)
    assert outcomes(finished.result) == [("node2", "confirmed")]
    assert (finished.exit_code, len(played.runs)) == (3, 1)


def test_ctrl_c_while_isolating_keeps_the_run_and_says_that_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(tmp_path, {"node3": 0.3})
    played.stop_at = 1
    finished = played.isolating(monkeypatch, continue_without=True)
    assert (len(played.groups), len(played.runs)) == (1, 1)
    assert outcomes(finished.result) == [("node3", "unknown")]
    assert (finished.result.conclusion.verdict, finished.exit_code) == ("incomplete", 3)
    read = RunResult.read(finished.folder / "result.json", "the result")
    assert read.benchmarks == finished.result.benchmarks
    assert "stopped by its user" in read.conclusion.reason


def test_emulated_nodes_are_never_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {"node3": 0.3})
    whole = played.result

    def emulated(names: tuple[str, ...]) -> RunResult:
        result = whole(names)
        return changed(result, cluster=changed(result.cluster, emulated=True))

    monkeypatch.setattr(played, "result", emulated)
    finished = played.isolating(monkeypatch, continue_without=True)
    assert (played.groups, len(played.runs), outcomes(finished.result)) == ([], 1, [("node3", "unknown")])


def test_a_run_that_cannot_go_on_keeps_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {"node3": 0.3})
    once = played.once

    def refusing(config: RunConfig, **rest: Any) -> FinishedRun:
        if config.only_nodes:
            raise UsageError("--root is 3, and the run has ranks 0 to 2")
        return once(config, **rest)

    monkeypatch.setattr(played, "once", refusing)
    finished = played.isolating(monkeypatch, continue_without=True)
    assert finished.exit_code == 1
    assert "the run could not go on without node3: --root is 3" in finished.remarks[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"isolate": True, "nodes": 1}, "this run has 1 node"),
        ({"continue_without": True, "nodes": 1}, "this run has 1 node"),
        ({"min_nodes": 3}, "--continue-without"),
        ({"continue_without": True, "min_nodes": 5, "nodes": 4}, "at most --nodes, 4"),
        ({"continue_without": True, "min_nodes": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_isolated_is_wrong_use(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RunConfig(**options)


def test_a_measurement_is_short_and_of_the_same_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(tmp_path, {"node3": 0.3})
    seen: list[RunConfig] = []
    measured = played.measured
    monkeypatch.setattr(played, "measured", lambda config, *rest: (seen.append(config), measured(config, *rest))[1])
    played.isolating(monkeypatch, isolate=True, env=("NCCL_ALGO=Ring",), repeats=5, timeout=300.0, p2p_size="64M")
    (one, _) = seen
    assert (one.suite, one.p2p_size, one.repeats, one.agent, one.timeout) == (
        "p2p_matrix", str(2**22), 1, False, 60.0,
    )  # fmt: skip
    assert (one.env, one.backend, one.isolates) == (("NCCL_ALGO=Ring",), "nccl", False)
    assert replace(one, only_nodes=()).plan("nccl")


@pytest.mark.parametrize("at_fault", ["node2", "node3"])
def test_of_two_nodes_that_stand_out_the_one_at_fault_is_dropped(
    at_fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(tmp_path, {at_fault: 0.02})
    played.is_open = ("node2", "node3")
    finished = played.isolating(monkeypatch, continue_without=True)
    assert finished.result.continued is not None
    isolation = finished.result.continued.isolation
    assert isolation is not None
    assert {one.name: (one.outcome, one.is_open) for one in isolation.suspects} == {
        name: ("confirmed" if name == at_fault else "not confirmed", True) for name in played.is_open
    }
    assert [one.node for one in finished.result.cluster.dropped] == [at_fault]


def test_after_a_measurement_that_was_not_over_in_time_messages_are_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(tmp_path, {"node3": 0.001})
    played.late = 1
    seen: list[str] = []
    measured = played.measured
    monkeypatch.setattr(
        played, "measured", lambda config, *rest: (seen.append(config.p2p_size), measured(config, *rest))[1]
    )
    finished = played.isolating(monkeypatch, isolate=True)
    assert outcomes(finished.result) == [("node3", "confirmed")]
    assert seen == [str(2**22), str(2**18), str(2**18)]
