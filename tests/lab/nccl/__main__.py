"""``python -m tests.lab.nccl``: scenarios of every release, and what is said of each log (``make nccl-matrix``).

Exit status 0 when all that is said is right, 1 when not, 2 where this machine cannot run it.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab.errors import LabError

from .build import built
from .chaos import judge, launcher_lines, random_scenario
from .coverage import table
from .fixtures import SIDE_BY_SIDE, why_not
from .job import ScenarioOutcome, run_scenario
from .judge import diagnose, differences, shows_fault
from .release import Release, find_releases
from .scenario import Scenario
from .scenarios import SCENARIOS


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """A scenario with a release, or with those of its mix."""

    scenario: Scenario
    release: Release

    @property
    def name(self) -> str:
        """As its log is named: ``2.27.5/ib-healthy``."""
        return f"{'+'.join(self.scenario.mix) or self.release.tag}/{self.scenario.name}"


def main() -> int:
    """Build what is missing, run everything, print a line for each. Returns an exit status."""
    options = _parse()
    if options.rules:
        print(*table(SCENARIOS), sep="\n")
        return 0
    reason = why_not()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 2
    wanted = set(filter(None, options.releases.split(",")))
    releases = [release for release in find_releases() if not wanted or release.tag in wanted]
    try:
        builds = {release.tag: built(release) for release in releases}
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    with TemporaryDirectory() as own:
        folder = options.logs or Path(own)
        if options.chaos:
            return _run_chaos(releases[-1], builds, options, folder)
        return _run(_entries(releases, set(filter(None, options.only.split(",")))), builds, folder)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.nccl", description="NCCL over an emulated GPU, broken.")
    parser.add_argument("--releases", default="", help="such as 2.18.3,2.27.5; by default all whose source is here")
    parser.add_argument("--only", default="", help="names of scenarios; by default all")
    parser.add_argument("--logs", type=Path, help="folder to keep the logs in, as RELEASE/SCENARIO.log")
    parser.add_argument("--chaos", type=int, default=0, metavar="COUNT", help="run jobs with random faults instead")
    parser.add_argument("--seed", type=int, default=1, help="of the random faults")
    parser.add_argument("--rules", action="store_true", help="only list which rules have rows")
    return parser.parse_args()


def _entries(releases: list[Release], only: set[str]) -> list[MatrixCell]:
    by_tag = {release.tag: release for release in releases}
    found = []
    for scenario in SCENARIOS:
        if only and scenario.name not in only:
            continue
        if scenario.mix:
            able = [by_tag[scenario.mix[0]]] if set(scenario.mix) <= set(by_tag) else []
        else:
            able = [release for release in releases if scenario.since <= release.number <= scenario.until]
        found += [MatrixCell(scenario=scenario, release=release) for release in able]
    return sorted(found, key=lambda entry: -entry.scenario.seconds)


def _run(entries: list[MatrixCell], builds: Mapping[str, Path], folder: Path) -> int:
    wrong = 0
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for outcome, entry in zip(pool.map(lambda entry: _timed(entry, builds), entries), entries, strict=True):
            line, is_right = _judge(entry, *outcome, folder)
            print(line, flush=True)
            wrong += not is_right
    print(f"{len(entries)} logs, {wrong} judged wrongly")
    return 1 if wrong else 0


def _run_chaos(release: Release, builds: Mapping[str, Path], options: argparse.Namespace, folder: Path) -> int:
    """Random jobs of one release; the odd ones have a launcher."""
    wrong = silent = failed = 0
    scenarios = [random_scenario(options.seed, number) for number in range(options.chaos)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        outcomes = pool.map(lambda scenario: run_scenario(scenario, builds, release), scenarios)
        for number, (scenario, outcome) in enumerate(zip(scenarios, outcomes, strict=True)):
            path = folder / f"{release.tag}-{scenario.name}.log"
            launcher = number % 2 == 1
            path.write_text(outcome.log + (launcher_lines(scenario, outcome.statuses) if launcher else ""))
            said = diagnose(path)
            judged = judge(outcome, said, launcher=launcher)
            wrong, silent, failed = wrong + bool(judged.wrong), silent + judged.silent, failed + judged.failed
            top = said.findings[0]["rule"] if said.findings else "nothing"
            head = f"{scenario.name:14} {said.document['verdict']:9} {top:26} {outcome.statuses} {scenario.broken}"
            print("\n    ".join(filter(None, (head, judged.wrong))), flush=True)
    print(f"{len(scenarios)} jobs, {failed} failed, {wrong} judged wrongly, {silent} of them without a launcher")
    return 1 if wrong else 0


def _timed(entry: MatrixCell, builds: Mapping[str, Path]) -> tuple[ScenarioOutcome, float]:
    begun = time.monotonic()
    outcome = run_scenario(entry.scenario, builds, entry.release)
    return outcome, time.monotonic() - begun


def _judge(entry: MatrixCell, outcome: ScenarioOutcome, seconds: float, folder: Path) -> tuple[str, bool]:
    """The line to print, and whether what was said is right."""
    head = f"{entry.name:36} {seconds:5.1f} s  ranks ended with {outcome.statuses}"
    path = folder / f"{entry.name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(outcome.log)
    if not shows_fault(entry.scenario, outcome.log):
        return f"{head}  shows no fault", True
    wrong = differences(entry.scenario.verdict, diagnose(path))
    return "\n    ".join([head, *wrong]), not wrong


if __name__ == "__main__":
    sys.exit(main())
