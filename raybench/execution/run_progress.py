"""What the launches of a run tell while they run: into the record and the journal, and on to whoever watches."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnostics.findings import Finding
from raybench.benchmarks.events import RankMark
from raybench.benchmarks.registry import labels_of, parameters_of, records_of
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples
from raybench.benchmarks.workload import Live, LiveRemark, RankRecord
from raybench.execution.channel import Channel
from raybench.execution.consistency import masked_devices, rank_differences
from raybench.execution.live.warning import LiveWarning
from raybench.execution.phases import MEASURING, SEARCHING
from raybench.execution.record import Planned, RunRecord

_CAUSE_SECONDS = 20.0


@dataclass(kw_only=True)
class RunProgress:
    """The watcher of every launch of one run: see ``watcher``."""

    record: RunRecord
    channel: Channel
    _live: dict[tuple[int, int], Live] = field(default_factory=dict)  # the same
    _done: Counter[tuple[int, int]] = field(default_factory=Counter)  # points, by launch and benchmark

    def begin(self) -> None:
        """All launches of the run come next."""
        planned = self.record.need()
        steps = sum(steps_of(spec, planned.plan.world_size) for spec in planned.specs) * self.record.config.repeats
        self.channel.start(steps, title_of(planned))

    def ready(self, rank: int, facts: Mapping[str, str]) -> None:
        """A rank has joined."""
        planned = self.record.need()
        planned.rank_facts[rank] = facts
        if len(planned.rank_facts) == planned.plan.world_size:
            self.record.timings.setdefault("until_all_ranks_joined", self.record.elapsed_seconds)
            self._judge_ranks(planned)

    def _judge_ranks(self, planned: Planned) -> None:
        """Say before anything is timed what makes the ranks' figures doubtful, and keep it whatever happens then."""
        found = rank_differences(planned.named_rank_facts())
        if not planned.emulated:  # an emulated node has a share of the machine's GPUs, and its ranks see that share
            found += masked_devices(planned.named_facts(), planned.named_rank_facts())
        for finding in found:
            if finding not in self.record.findings:
                self.record.findings.append(finding)
                self.channel.note(f"{finding.severity.upper()}: {finding.summary}")

    def troubled(self) -> None:
        """Something broke, or the time is over: who is at fault is looked for, and then the ranks are ended."""
        self.channel.consult(self.record)
        self.channel.mark(SEARCHING, _CAUSE_SECONDS, self.record)

    def warned(self, warning: LiveWarning) -> None:
        """Something is wrong now, and the ranks go on."""
        self.channel.warned(warning)

    def marked(self, marks: Sequence[RankMark]) -> None:
        """How far the ranks of a node have come."""
        self.channel.marked(marks)

    def agent_said(self, node: int, data: bytes) -> None:
        """The agent of a machine has said something: what, is the command's to read."""
        self.channel.agent_said(node, data)

    def found(self, finding: Finding) -> None:
        """A finding that the result has to have, whatever happens now."""
        self.record.findings.append(finding)
        self.channel.keep(self.record)

    def heard(self, data: bytes) -> None:
        """An event of a rank that has to do with samples."""
        self.channel.heard(self.record.launches - 1, data)

    def started(self, benchmark: int) -> None:
        """The ranks turn to a benchmark."""
        self.record.benchmark = benchmark
        self.channel.mark(MEASURING, self.record.config.timeout, self.record)
        self._show(benchmark, 0)

    def measured(self, benchmark: int, samples: Mapping[int, RankSamples]) -> None:
        """A point is complete: into the journal, and on to the next size."""
        self.record.timings.setdefault("until_first_point", self.record.elapsed_seconds)
        spec = self.record.need().specs[benchmark]
        self.channel.record(_journal_entry(self.record.launches - 1, spec, samples))
        key = self.record.launches, benchmark  # the last point of one may come after another has started
        self._done[key] += 1
        self._show(benchmark, self._done[key])

    def on_record(self, benchmark: int, records: Mapping[int, RankRecord]) -> None:
        """The same for a point of a workload."""
        self.record.timings.setdefault("until_first_point", self.record.elapsed_seconds)
        spec = self.record.need().specs[benchmark]
        self.channel.record(
            {
                "launch": self.record.launches - 1,
                "benchmark": spec.name,
                "parameters": parameters_of(spec),
                "ranks": {str(rank): record for rank, record in sorted(records.items())},
            }
        )
        key = self.record.launches, benchmark
        self._done[key] += 1
        self._show(benchmark, self._done[key])

    def on_partial(self, benchmark: int, rank: int, part: RankRecord) -> None:
        """A part of a point into the journal, and a word on it, as the workload has it."""
        spec = self.record.need().specs[benchmark]
        records = records_of(spec.kind)
        note = records.note(part) if rank == 0 else None
        if note is not None:
            self.channel.note(note)
        if records.is_kept(part, spec):
            entry = {"launch": self.record.launches - 1, "benchmark": spec.name, "interim": True}
            self.channel.record(entry | {"ranks": {str(rank): part}})
        if records.live is not None:
            self._follow(benchmark, rank, part, records.live)

    def _follow(
        self, benchmark: int, rank: int, part: RankRecord, make: Callable[[BenchmarkSpec, int, bool], Live]
    ) -> None:
        """Say how far the point is, with rank 0's parts, and what is wrong by any rank's."""
        planned, key = self.record.need(), (self.record.launches, benchmark)
        if key not in self._live:
            self._live[key] = make(planned.specs[benchmark], planned.plan.world_size, planned.emulated)
        for remark in self._live[key].take(rank, part):
            self._remark(remark)
        if rank == 0 and (progress := self._live[key].progress()) is not None:
            self.channel.progress(progress)

    def _remark(self, remark: LiveRemark) -> None:
        now, planned = self.record.elapsed_seconds, self.record.need()
        ranks = () if remark.rank is None else (remark.rank,)
        node = None if remark.rank is None else planned.plan.node_of(remark.rank).name
        self.channel.warned(
            LiveWarning(
                at_seconds=now,
                since_seconds=now,
                rule=remark.rule,
                severity=remark.severity,
                text=remark.text + (f" (on {node})" if node and not remark.over else ""),
                ranks=ranks,
                hosts=(node,) if node else (),
                over=remark.over,
            )
        )

    def _show(self, benchmark: int, done: int) -> None:
        planned = self.record.need()
        spec, world_size = planned.specs[benchmark], planned.plan.world_size
        labels = labels_of(spec, world_size)
        if done < len(labels):
            self.channel.step(spec.name, labels[done].removeprefix(f"{spec.name} "), world_size)


def steps_of(spec: BenchmarkSpec, world_size: int) -> int:
    """Points that a benchmark measures: its sizes, the ordered pairs of ranks, or the parts of a workload."""
    return len(labels_of(spec, world_size))


def title_of(planned: Planned) -> str:
    """``2 EMULATED nodes on this machine, 2 ranks, gloo``."""
    plan, emulated = planned.plan, planned.emulated
    nodes = f"{len(plan.nodes)} {'EMULATED ' * emulated}node{'s' * (len(plan.nodes) > 1)}"
    ranks = f"{plan.world_size} rank{'s' * (plan.world_size > 1)}"
    cluster = f"; Ray cluster {planned.found_by}" if planned.found_by else ""
    cluster = f"; ranks of {planned.launcher}" if planned.launcher else cluster
    return f"{nodes}{' on this machine' * emulated}, {ranks}, {plan.backend}{cluster}"


def _journal_entry(launch: int, spec: BenchmarkSpec, samples: Mapping[int, RankSamples]) -> dict[str, Any]:
    first = next(iter(samples.values()))
    return {
        "launch": launch,
        "benchmark": spec.name,
        "parameters": parameters_of(spec),
        "message_bytes": first.message_bytes,
        "source_rank": first.source_rank,
        "destination_rank": first.destination_rank,
        "wrong_elements": {str(rank): one.wrong_elements for rank, one in samples.items() if one.wrong_elements},
        "rank_completion_seconds": {str(rank): one.stamps for rank, one in sorted(samples.items())},
    }
