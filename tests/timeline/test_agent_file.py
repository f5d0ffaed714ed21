"""The file of ``raybench agent -o``: shown with its verdict and warnings, and taken as samples of a run."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import raybench
from diagnostics.agent.messages import Clock, Message, Reading, Source, Warned
from diagnostics.agent.sample_file import SampleFile
from diagnostics.findings import Finding
from raybench.cli.samples import command as samples_command
from raybench.cli.show import command as show_command
from raybench.documents.reading import DocumentError
from raybench.documents.run.node_samples import NodeSamples
from raybench.reports.builders import asked
from raybench.timeline.agent_file import agent_samples
from tests.timeline.runs import collective, run_of

STARTED = "2026-11-23T02:00:00+00:00"
START = 1795399200.0  # the same
BOOT = 500.0
ERRORS = "port/mlx5_3:1/symbol_errors"
WARNED = Warned(
    monotonic_seconds=BOOT + 12,
    since_seconds=BOOT + 11,
    finding=Finding(
        rule="port-errors",
        severity="warning",
        confidence="certain",
        summary="node-1 mlx5_3:1: symbol errors grow",
        explanation="Bits are lost on the cable.",
        hosts=("node-1",),
    ),
    series=(ERRORS,),
)


def clock(at: float = BOOT, wall: float = START) -> Clock:
    return Clock(wall_seconds=wall, monotonic_seconds=at, host="node-1", interval_seconds=1.0)


def readings(seconds: int = 40, begin: float = BOOT) -> list[Message]:
    """Errors that grow from 10 to 20 s."""
    return [
        Reading(
            monotonic_seconds=begin + at,
            source="ports",
            values={ERRORS: 5 + 410 * min(max(at - 10, 0), 10), "host/cpu/cores": 8},
        )
        for at in range(seconds)
    ]


def written(folder: Path, *messages: Message, max_bytes: int = 2**20) -> Path:
    file = SampleFile(folder / "samples.jsonl", max_bytes)
    for message in messages:
        file.write(message)
    file.close()
    return folder / "samples.jsonl"


def test_the_file_is_shown_with_the_verdict_of_its_warnings_first(tmp_path: Path) -> None:
    gpus = Source(monotonic_seconds=BOOT, name="gpus", available=False, reason="no NVML")
    path = written(tmp_path, clock(), gpus, *readings(), WARNED)
    done = CliRunner().invoke(show_command, [str(path), "--full"])
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == lines[-1] == "# VERDICT: WARNING: node-1 mlx5_3:1: symbol errors grow"
    assert "4,100" in done.output  # errors, in the table
    assert "no NVML" in done.output
    html = CliRunner().invoke(show_command, [str(path), "--format", "html"])
    assert "symbol errors grow" in html.output
    csv = CliRunner().invoke(show_command, [str(path), "--format", "csv"])
    assert f"node-1,10.0,{ERRORS},5" in csv.output


@pytest.mark.parametrize(("series", "verdict"), [("host/cpu/cores", "OK"), ("agent/self/dropped_messages", "UNKNOWN")])
def test_a_calm_file_is_ok_and_one_without_readings_unknown(tmp_path: Path, series: str, verdict: str) -> None:
    reading = Reading(monotonic_seconds=BOOT + 1, source="host", values={series: 4})
    done = CliRunner().invoke(show_command, [str(written(tmp_path, clock(), reading))])
    assert done.output.startswith(f"# VERDICT: {verdict}: ")


def test_both_halves_are_read_and_only_what_came_since_the_machine_started(tmp_path: Path) -> None:
    old = [Reading(monotonic_seconds=9000.0 + at, source="x", values={"host/cpu/cores": 2}) for at in range(9)]
    path = written(tmp_path, clock(9000.0, START - 600), *old, WARNED, clock(), *readings(20_000), max_bytes=4 * 2**20)
    assert path.with_name("samples.jsonl.1").exists()
    samples = agent_samples(path)
    (node,) = samples.nodes
    assert samples.findings == ()
    assert node.seconds[0] == 0.0
    assert node.seconds[-1] == pytest.approx(19_999, abs=2 * node.merged)
    assert node.left_out["messages from before the machine started again"] == 11


def test_what_is_no_message_costs_its_line_and_a_file_without_any_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, clock(), *readings(3))
    with path.open("ab") as file:
        file.write(b'{"kind":"reading","values":1}\n\xff\xfe\n{"kind":"reading"')
    (node,) = agent_samples(path).nodes
    assert (node.rows, node.left_out) == (3, {"lines that are not a message": 3})
    other = tmp_path / "other"
    other.write_text('{"kind":"nothing"}\n')
    with pytest.raises(DocumentError, match="is not a file of raybench agent"):
        agent_samples(other)
    done = CliRunner().invoke(show_command, [str(other)])
    assert done.exit_code != 0


def test_the_file_becomes_samples_of_a_run_and_the_run_is_judged_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked, "has_matplotlib", lambda: False)
    result = replace(run_of(collective((0.10, 0.16))), started_at=STARTED, finished_at="2026-11-23T02:01:30+00:00")
    run = tmp_path / "run"
    run.mkdir()
    (run / "result.json").write_text(json.dumps(result.to_json()))
    path = written(tmp_path, clock(), *readings())
    done = CliRunner().invoke(samples_command, ["import", str(run), str(path)])
    assert done.exit_code == 0, done.output
    assert "WARNING: node-1 mlx5_3:1: symbol errors +4,100 during all_reduce 1G" in done.output
    samples = raybench.load(run / "node_samples.json")
    assert isinstance(samples, NodeSamples)
    assert [node.name for node in samples.nodes] == ["node-1"]


def test_a_clock_of_before_1970_is_a_line_that_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, clock(wall=-1e11), clock(), *readings())
    samples = agent_samples(path)
    assert samples.started_at == STARTED
    assert samples.nodes[0].left_out == {"lines that are not a message": 1}
    alone = written(tmp_path, clock(wall=-1e11), *readings())
    alone.write_text("".join(line for line in alone.read_text().splitlines(keepends=True) if str(START) not in line))
    with pytest.raises(DocumentError, match="no time of it is known"):
        agent_samples(alone)


def test_what_comes_before_the_first_clock_is_counted(tmp_path: Path) -> None:
    samples = agent_samples(written(tmp_path, *readings(3), WARNED, clock(), *readings(2)))
    assert samples.nodes[0].left_out == {"messages before the first clock": 4}
    assert samples.findings == ()


def test_what_is_beyond_the_limit_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, clock(), *readings(2))
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"x" * 500)
    monkeypatch.setattr("raybench.timeline.agent_file._MOST_BYTES", size)
    monkeypatch.setattr("raybench.timeline.agent_file._PIECE_BYTES", size)
    assert agent_samples(path).nodes[0].left_out == {"bytes beyond 1 GiB": 500}
