"""Progress on a terminal and in a pipe."""

import io

import pytest

from raybench.reports.progress import ProgressDisplay, estimate_left_seconds
from raybench.reports.text import format_left


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run_steps(display: ProgressDisplay, clock: Clock, *, seconds: float) -> None:
    display.start(6, "measuring on 2 nodes")
    for benchmark in ("all_reduce", "all_gather"):
        for size in ("8", "64K", "1M"):
            display.step(benchmark, size, 8)
            clock.now += seconds
    display.close()


def test_pipe_gets_one_line_a_benchmark_when_steps_are_fast() -> None:
    stream, clock = io.StringIO(), Clock()
    run_steps(ProgressDisplay(stream, clock=clock), clock, seconds=0.1)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "measuring on 2 nodes"
    assert [line.split()[1:3] for line in lines[1:]] == [["all_reduce", "8,"], ["all_gather", "8,"]]


def test_pipe_gets_a_line_a_step_when_steps_are_slow() -> None:
    stream, clock = io.StringIO(), Clock()
    run_steps(ProgressDisplay(stream, clock=clock), clock, seconds=6)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 7
    assert lines[2] == "[2/6] all_reduce 64K, 8 ranks, after 6.0 s, 30 s left"


def test_pipe_gets_no_control_characters() -> None:
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        display.start(1, "title \x1b[31m")
        display.step("x\x1b[2J", "8\r", 1)
        display.note("lost node \x07")
    assert not any(character < " " and character != "\n" for character in stream.getvalue())


def test_terminal_gets_a_live_bar_that_markup_cannot_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with ProgressDisplay(stream) as display:
        display.start(2, "title")
        display.step("all_reduce", "64K", 8)
        display.note("note [bold]")
        display.step("all_reduce [red]", "1M", 8)
    text = stream.getvalue()
    assert "\x1b[?25h" in text  # the cursor is back
    assert "note [bold]" in text
    assert "all_reduce [red] 1M, 8 ranks" in text


def test_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with ProgressDisplay(stream) as display:
        display.start(1, "title")
        display.step("all_reduce", "8", 2)
    assert "\x1b" not in stream.getvalue()


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    with ProgressDisplay(stream) as display:
        display.start(2, "title")
        display.step("all_reduce", "8", 2)
        display.step("all_reduce", "16", 2)
    assert "\x1b[3" not in stream.getvalue()
    assert "\x1b[9" not in stream.getvalue()


def test_closing_twice_and_before_the_start_is_harmless() -> None:
    stream = Terminal()
    display = ProgressDisplay(stream)
    display.close()
    display.close()
    display.note("still there")
    assert "still there" in stream.getvalue()


def test_time_left_uses_whole_benchmarks_once_one_has_ended() -> None:
    assert estimate_left_seconds([("a", 0.0)], 4, 1.0) is None
    assert estimate_left_seconds([("a", 0.0), ("a", 1.0)], 4, 1.0) == pytest.approx(3.0)
    began = [("a", 0.0), ("a", 1.0), ("b", 10.0), ("b", 10.5)]
    assert estimate_left_seconds(began, 4, 10.5) == pytest.approx(5.0)


def test_time_left_is_never_negative() -> None:
    assert estimate_left_seconds([("a", 0.0), ("a", 1.0)], 2, 100.0) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "under 1 s"), (12.4, "12 s"), (200, "3 min"), (4800, "1 h 20 min")]
)
def test_time_left_is_rough(seconds: float, text: str) -> None:
    assert format_left(seconds) == text


def test_steps_of_a_training_are_few_plain_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    display = ProgressDisplay(stream, clock=clock)
    display.start(1, "2 ranks, gloo")
    display.step("ddp", "tiny", 2)
    for done in range(1, 401):
        clock.now += 0.125
        display.progress(done, 400, "loss 3.25, 5.2K tokens/s", (400 - done) * 0.125)
    lines = stream.getvalue().splitlines()[2:]
    assert lines[0] == "[1/1] ddp step 40 of 400, loss 3.25, 5.2K tokens/s, after 5.0 s, 45 s left"
    assert len(lines) == 10


def test_steps_of_a_long_training_are_a_line_a_minute_at_most() -> None:
    stream, clock = io.StringIO(), Clock()
    display = ProgressDisplay(stream, clock=clock)
    display.start(1, "2 ranks, gloo")
    display.step("ddp", "tiny", 2)
    for done in range(1, 1801):
        clock.now += 2.0
        display.progress(done, 1_000_000, "loss 3.25", None)
    assert len(stream.getvalue().splitlines()) - 2 <= 60
