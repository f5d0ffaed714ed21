"""Fixtures of the whole suite."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .lab.fixtures import lab, ray_lab

__all__ = ["lab", "ray_lab"]

# Several processes at a time have all processors: a second thread of one would spin while it waits for the first.
os.environ.setdefault("OMP_NUM_THREADS", "1")
REPOSITORY = Path(__file__).resolve().parents[1]
settings.register_profile("loaded", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("loaded")  # tests run side by side: how long an example takes says nothing of the code


class FailuresAtOnce:
    """Names each test that fails when it fails: in CI the summary is minutes away."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if report.failed and terminal is not None:
            lines = report.longreprtext.splitlines()
            said = next((line for line in lines if line.startswith("E ")), lines[-1] if lines else "")
            terminal.write_line(f"\nfailed in {report.when}: {report.nodeid}: {' '.join(said[1:].split())[:200]}")


def pytest_configure(config: pytest.Config) -> None:
    """Undo what a shell does to what it starts in the background or under nohup: the commands under test are not."""
    if not hasattr(config, "workerinput"):  # of pytest-xdist, whose workers print nothing
        config.pluginmanager.register(FailuresAtOnce(config))
    os.environ.pop("COLUMNS", None)  # of whoever runs the tests, or of pytest-xdist: ours have a width of their own
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Look for no garbage while thousands of tests are collected, which are none, and among them never again.

    That was a quarter of a collection, and a tenth of the tests that compute.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with clusters and labs first: they wait, and what computes fills the gaps when files run side by side."""
    waiting = {item.path for item in items if any(map(item.get_closest_marker, ("lab", "cluster")))}
    items.sort(key=lambda item: item.path not in waiting)
    if "RAYBENCH_LONG_TESTS" not in os.environ:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="half a minute and more of real runs: make test-long"))


@pytest.fixture(autouse=True)
def _own_code_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that tests start run this working tree, whatever else is installed."""
    path = os.environ.get("PYTHONPATH", "")
    if str(REPOSITORY) not in path.split(os.pathsep):
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(REPOSITORY), path])))
