"""A fabric test step by step: plan the scan, plan what confirms, report. Pure but for the clock's time in the report.

What the playbook's action plugin calls. Everything is computed anew from what hosts returned, so that nothing is kept
between steps but what Ansible keeps.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.documents.fabric import FabricReport
from raybench.errors import UsageError
from raybench.preflight.fabric.answers import WRONG_END, is_end, results_of
from raybench.preflight.fabric.ends import end_from
from raybench.preflight.fabric.judgement import RailJudgement, judge
from raybench.preflight.fabric.localise import next_round
from raybench.preflight.fabric.measurements import measurements
from raybench.preflight.fabric.report import RunFacts, empty_report, report
from raybench.preflight.fabric.rounds import Round
from raybench.preflight.fabric.schedule import Fabric, portions, round_seconds, scan_rounds, survey, work_of
from raybench.preflight.fabric.settings import FabricSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the module returned from one host when it was looked at, or why it did not, and its variables.

    ``lost``: why the host was given up in the middle of the run, empty where it was not.
    """

    name: str
    end: Mapping[str, Any] | None
    problem: str
    options: Mapping[str, Any]
    lost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What hosts do next. ``portions`` are [first, last] round of each fetch; nothing to do where ``work`` is empty."""

    work: Mapping[str, Any]
    portions: tuple[list[int], ...]
    rounds: int
    first: int
    seconds: float  # about how long it takes
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the action plugin returns it."""
        return {
            "work": dict(self.work),
            "portions": [list(portion) for portion in self.portions],
            "rounds": self.rounds,
            "first": self.first,
            "seconds": self.seconds,
            "problem": self.problem,
        }


def fabric_of(replies: Sequence[Reply], settings: FabricSettings) -> Fabric:
    """The hosts that answered and can take part. Raises UsageError where there are not two."""
    described = [reply for reply in replies if reply.end and is_end(reply.end)]
    return survey([end_from(reply.name, reply.end or {}, reply.options) for reply in described], settings)


def plan_scan(replies: Sequence[Reply], settings: FabricSettings, *, token: str, forks: int) -> Step:
    """The rounds of the scope. Where nothing can be measured, a step without work that says why."""
    try:
        fabric = fabric_of(replies, settings)
    except UsageError as error:
        return Step(work={}, portions=(), rounds=0, first=0, seconds=0.0, problem=str(error))
    rounds = [{rail.name: pairs for rail in fabric.rails} for pairs in scan_rounds(fabric, settings)]
    return _step(fabric, settings, rounds, first=0, token=token, forks=forks)


def plan_confirmation(
    replies: Sequence[Reply],
    settings: FabricSettings,
    returned: object,
    *,
    done: int,
    token: str,
    forks: int,
) -> Step:
    """One more round, of suspects against proven hosts; without work where that would tell nothing more.

    ``returned`` is what hosts returned so far, entries by host's name; ``done`` rounds were run before,
    those of the scan included.
    """
    fabric = fabric_of(replies, settings)
    results = results_of(returned, fabric)
    lost = {reply.name for reply in replies if reply.lost} | results.refused.keys()
    rails = judged_rails(fabric, settings, results.entries, lost)
    absent = frozenset(index for index, name in enumerate(fabric.names) if name in lost)
    pairs = {
        rail.rail.name: next_round(rail.evidence, leaf_of=fabric.leaf_of, absent=absent, seed=settings.seed + done)
        for rail in rails
    }
    rounds: list[dict[str, Round]] = [pairs] if any(pairs.values()) else []
    return _step(fabric, settings, rounds, first=done, token=token, forks=forks)


def judged_rails(
    fabric: Fabric,
    settings: FabricSettings,
    results: Mapping[str, Sequence[Mapping[str, Any]]],
    lost: Collection[str] = (),
) -> tuple[RailJudgement, ...]:
    """All measurements so far, judged. That tests with a lost host failed says nothing of its partners."""
    return judge(fabric, settings, measurements(results, fabric.tool), len(scan_rounds(fabric, settings)), lost)


def final_report(
    replies: Sequence[Reply],
    settings: FabricSettings,
    returned: object,
    *,
    run_id: str,
    times: tuple[str, str],
) -> FabricReport:
    """The report, whatever came of the run. ``returned`` is what hosts returned, entries by host's name."""
    unreachable = {reply.name: reply.problem for reply in replies if not reply.end}
    unreachable |= {reply.name: WRONG_END for reply in replies if reply.end and not is_end(reply.end)}
    try:
        fabric = fabric_of(replies, settings)
    except UsageError as error:
        facts = _facts(run_id, times, unreachable, {}, 0, 0)
        return empty_report(settings, facts, str(error))
    results = results_of(returned, fabric)
    lost = {name: "its results could not be fetched" for name, entries in results.entries.items() if not entries}
    lost |= results.refused
    lost |= {reply.name: reply.lost for reply in replies if reply.lost}
    rails = judged_rails(fabric, settings, results.entries, lost)
    planned = len(scan_rounds(fabric, settings))
    numbers = {entry["round"] for entries in results.entries.values() for entry in entries}
    extra = len({number for number in numbers if number >= planned})
    return report(fabric, settings, rails, _facts(run_id, times, unreachable, lost, planned, extra))


def _facts(
    run_id: str,
    times: tuple[str, str],
    unreachable: Mapping[str, str],
    lost: Mapping[str, str],
    scan: int,
    confirm: int,
) -> RunFacts:
    return RunFacts(
        run_id=run_id,
        started_at=times[0],
        finished_at=times[1],
        scan_rounds=scan,
        confirm_rounds=confirm,
        unreachable=unreachable,
        lost=lost,
    )


def _step(
    fabric: Fabric,
    settings: FabricSettings,
    rounds: Sequence[Mapping[str, Round]],
    *,
    first: int,
    token: str,
    forks: int,
) -> Step:
    return Step(
        work=work_of(fabric, settings, rounds, first=first, token=token, forks=forks),
        portions=tuple(portions(len(rounds), len(fabric.ends), first)),
        rounds=len(rounds),
        first=first,
        seconds=len(rounds) * round_seconds(fabric, settings),
    )
