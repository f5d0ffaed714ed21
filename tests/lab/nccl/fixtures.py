"""Logs of all scenarios that a test run selected, made side by side: they wait more than they compute."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lab.errors import LabUnavailableError
from tests.lab.requirement import lab_available

from .build import built
from .headers import missing_tools
from .job import ScenarioOutcome, run_scenario
from .release import SOURCE_VARIABLE, Release, find_releases, release_for_tests
from .scenario import Scenario
from .scenarios import SCENARIOS

SIDE_BY_SIDE = 4


class Logs:
    """The log of each scenario, run once."""

    def __init__(self, release: Release, builds: Mapping[str, Path], pool: ThreadPoolExecutor) -> None:
        self.release = release
        self._builds = builds
        self._pool = pool
        self._started: dict[str, Future[ScenarioOutcome]] = {}

    def begin(self, scenario: Scenario) -> None:
        """Have it run."""
        if scenario.name not in self._started:
            self._started[scenario.name] = self._pool.submit(run_scenario, scenario, self._builds, self.release)

    def outcome(self, scenario: Scenario) -> ScenarioOutcome:
        """Its log, waited for."""
        self.begin(scenario)
        return self._started[scenario.name].result()


def why_not() -> str | None:
    """None where this machine can build NCCL and run it, else the reason, which says what would help."""
    if not find_releases():
        return f"no NCCL source: name an archive, a checkout, or a folder of them in {SOURCE_VARIABLE}"
    return missing_tools() or lab_available()


@pytest.fixture(scope="module")
def logs(request: pytest.FixtureRequest) -> Iterator[Logs]:
    """Logs of one release. Skips the test, saying why, where it cannot be built or run."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    release = release_for_tests(find_releases())
    try:
        builds = {release.tag: built(release)}
    except LabUnavailableError as error:
        pytest.skip(str(error))
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        made = Logs(release=release, builds=builds, pool=pool)
        for scenario in SCENARIOS:
            if scenario in _selected(request):
                made.begin(scenario)
        yield made


def _selected(request: pytest.FixtureRequest) -> list[Scenario]:
    """The scenarios of the tests that this run has collected."""
    calls = (getattr(item, "callspec", None) for item in request.session.items)
    return [call.params["scenario"] for call in calls if call is not None and "scenario" in call.params]
