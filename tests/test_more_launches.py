"""When a run launches again: only where its launches lie too far apart to show 5 %, and of what waits for a link."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from raybench.benchmarks.machine_use import MachineSeconds, machine_use
from raybench.comparison.comparing import compare
from raybench.comparison.run_side import run_side
from raybench.config import RunConfig
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.point import Point
from raybench.documents.run.result import RunResult
from raybench.execution.record import RunRecord
from raybench.execution.run import Run
from raybench.more_launches import figures_compared, pause_seconds, widest_spread
from tests.comparison.recorded import SERIES

QUIET_SERIES = "load 1.1 to 2.1"
HELD_UP = ((0.05366, 0.04766, 0.04792), (0.09901, 0.10297, 0.09003))  # of a series whose host held up whole runs
QUIET = ((0.08944, 0.08922, 0.08933), (0.09421, 0.09408, 0.09406))


def result(*launches: Sequence[float], source_rank: int | None = None) -> BenchmarkResult:
    blocks = tuple(tuple((tuple(samples[i : i + 4])) for i in range(0, len(samples), 4)) for samples in launches)
    point = Point(
        message_bytes=2**20,
        element_count=2**18,
        bus_factor=1.0,
        launches=blocks,
        rank_seconds=(0.1, 0.1),
        verified=True,
        wrong_elements=0,
        source_rank=source_rank,
        destination_rank=None if source_rank is None else 1,
    )
    return BenchmarkResult(name="all_reduce", kind="collective", parameters={}, status="complete", points=(point,))


def steady(level: float, count: int = 20) -> list[float]:
    return [level * (1 + 0.0005 * (number % 3 - 1)) for number in range(count)]


@pytest.mark.parametrize("levels", [*HELD_UP[1:], (0.0894, 0.0894, 0.0985), (0.09, 0.094)])
def test_launches_that_lie_apart_want_more(levels: tuple[float, ...]) -> None:
    worst = widest_spread([result(*map(steady, levels))])
    assert worst is not None
    assert worst.share > 0.025
    assert worst.text.startswith(f"all_reduce, 1M: of {len(levels)} launches each, two runs of the same may differ by")


@pytest.mark.parametrize("levels", QUIET)
def test_launches_that_agree_want_none(levels: tuple[float, ...]) -> None:
    assert widest_spread([result(*map(steady, levels))]) is None


def test_quiet_launches_after_those_that_were_held_up_are_enough() -> None:
    held = [0.0947, 0.0927, 0.0941]
    assert widest_spread([result(*map(steady, [*held, *[0.0894] * 3]))]) is not None
    assert widest_spread([result(*map(steady, [*held, *[0.0894] * 9]))]) is None


def test_of_many_figures_each_has_to_be_known_better() -> None:
    one = result(*map(steady, (0.0894, 0.0900, 0.0906)))
    assert widest_spread([one]) is None
    assert widest_spread([one] * 20) is not None


def test_what_waits_for_a_process_or_is_one_pair_of_many_is_not_judged() -> None:
    assert widest_spread([result(*map(steady, (0.001, 0.002, 0.004)))]) is None
    assert widest_spread([result(*map(steady, HELD_UP[1]), source_rank=0)]) is None


@pytest.mark.parametrize(("levels", "wants"), [(QUIET[0], False), (HELD_UP[1], True)])
def test_lost_processors_want_no_more_launches_where_these_agree(levels: tuple[float, ...], wants: bool) -> None:
    lost = MachineSeconds(seconds=1.0, processors=2, busy=0.9, stolen=0.1)
    uses = tuple(machine_use(launch, 0, lost) for launch in range(3))
    assert (widest_spread([structs.replace(result(*map(steady, levels)), machine_use=uses)]) is not None) == wants


def test_one_launch_shows_nothing_of_another() -> None:
    worst = widest_spread([result(steady(0.09))])
    assert worst is not None
    assert worst.text == "all_reduce, 1M: one launch does not show what another would be"


def test_pauses_grow_and_end_at_half_a_minute() -> None:
    assert [pause_seconds(number) for number in range(6)] == [5, 10, 20, 30, 30, 30]


def test_most_recorded_runs_want_no_more() -> None:
    runs = [[[one / 1e6 for one in launch] for launch in run["microseconds"]["1024K"]] for run in SERIES[QUIET_SERIES]]
    assert sum(widest_spread([result(*launches)]) is not None for launches in runs) <= len(runs) / 4


class _Taking:
    """A collector whose launches are these, as far as they were made; and what a run says to a channel."""

    def __init__(self, levels: Sequence[float]) -> None:
        self.levels, self.notes = levels, list[str]()

    def results(self, launches: int, _reason: None) -> tuple[BenchmarkResult, ...]:
        return (result(*map(steady, self.levels[:launches])),)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def mark(self, *_: object) -> None:
        """Nobody watches."""

    def wait(self, seconds: float) -> None:
        self.notes.append(f"{seconds:.0f} s")


HELD, QUIET_AGAIN = (0.0990, 0.1029, 0.0900), (0.0894,) * 9


@pytest.mark.parametrize(
    ("levels", "options", "emulated", "launches", "pauses"),
    [
        (QUIET_AGAIN, {"repeats": 3}, False, 3, []),
        ((*HELD, *QUIET_AGAIN), {"repeats": 3}, False, 9, ["5 s", "10 s", "20 s", "30 s", "30 s", "30 s"]),
        ((*HELD, *QUIET_AGAIN), {"repeats": 3, "max_repeats": 4}, False, 4, ["5 s"]),
        ((*HELD, *QUIET_AGAIN), {"repeats": 3, "max_repeats": 3}, False, 3, []),
        ((*HELD, *QUIET_AGAIN), {"repeats": 3, "timeout": 12.0}, False, 5, ["5 s", "10 s"]),  # nothing takes time here
        ((*HELD, *QUIET_AGAIN), {"repeats": 3, "timeout": 4.0}, False, 3, []),
        ((*HELD, *QUIET_AGAIN), {"repeats": 3}, True, 3, []),
        ((*HELD, *QUIET_AGAIN), {"repeats": 3, "max_repeats": 5}, True, 5, ["5 s", "10 s"]),
        (HELD, {"repeats": 1}, False, 1, []),
        ((0.09, 0.0901, 0.099), {"repeats": 1, "max_repeats": 4}, False, 2, ["5 s"]),  # a second one agrees
    ],
)
def test_a_run_launches_again_until_its_launches_agree_or_a_bound_is_met(
    levels: tuple[float, ...], options: dict[str, Any], emulated: bool, launches: int, pauses: list[str], tmp_path: Path
) -> None:
    taking = _Taking(levels)
    record = RunRecord(config=RunConfig(**options), run_id="run")
    interrupt = SimpleNamespace(event=taking)
    run = Run(record=record, channel=taking, interrupt=interrupt, workplace=tmp_path)
    made = []
    for number in run._launch_numbers(SimpleNamespace(collector=taking, emulated=emulated)):
        made.append(number)
        record.launches = number + 1
    assert made == list(range(launches))
    assert [note for note in taking.notes if note.endswith(" s")] == pauses
    assert [note.partition(",")[0] for note in taking.notes if not note.endswith(" s")] == (
        ["launching again"] if pauses else []
    )


@pytest.mark.parametrize("name", ["collective-26f0ebe", "training-a0b1ea6", "memory-6cd7514", "checkpoint-6cd7514"])
def test_as_many_figures_are_counted_as_a_comparison_judges(name: str) -> None:
    kept = RunResult.read(Path(__file__).parent / "documents/samples" / f"{name}.json", "it")
    found = compare([run_side("a", [kept]), run_side("b", [kept])])
    assert figures_compared(kept.benchmarks) == len(found.compared) > 0
