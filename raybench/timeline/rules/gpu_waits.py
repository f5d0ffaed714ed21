"""GPUs that are idle while a training loads data."""

from raybench.documents.run.training.point import TrainingPoint
from raybench.documents.run.training.threshold import HIGH_DATA_SHARE
from raybench.finding_rules.samples import GPU_WAITS
from raybench.timeline.measures import between
from raybench.timeline.rules.base import Answer, lacking, measured, ranks_on, sampled
from raybench.timeline.spans import Steps, Timeline

LEAST_UTILIZATION = 80.0  # percent


def judge(timeline: Timeline) -> Answer:
    """A finding for each training whose GPUs were idle and whose data took long."""
    points = [one for benchmark in timeline.result.benchmarks for one in benchmark.workload]
    trained = [one for one in points if isinstance(one, TrainingPoint) and one.known_facts.gpu]
    slow = [one for one in trained if one.data_share > HIGH_DATA_SHARE]
    if not slow:
        return Answer()
    steps = [one for one in timeline.steps if any(one.point is each for each in slow)]
    if not steps:
        return Answer(why="the result does not say when its steps were")
    answers = [_of_training(timeline, one) for one in steps]
    return Answer(
        findings=tuple(finding for answer in answers for finding in answer.findings),
        why=next((answer.why for answer in answers if answer.why), ""),
    )


def _of_training(timeline: Timeline, steps: Steps) -> Answer:
    nodes = timeline.samples.nodes
    used = {
        (node.name, name): between(node, node.values(name), steps.begin, steps.ends[-1])
        for node in nodes
        for name in node.names("gpu", "utilization_percent")
    }
    known = {place: values for place, values in used.items() if len(values) >= 2}
    without = [node for node in nodes if not any(name == node.name for name, _ in known)]
    why = lacking(timeline, without, "the utilisation of GPUs over the timed steps")
    if not known:
        return Answer(why=why)
    means = {place: sum(values) / len(values) for place, values in known.items()}
    mean = sum(means.values()) / len(means)
    if mean >= LEAST_UTILIZATION:
        return Answer(why=why)
    worst = min(means, key=means.__getitem__)
    node = next(one for one in nodes if one.name == worst[0])
    share = steps.point.data_share
    finding = GPU_WAITS.finding(
        confidence="likely",
        summary=f"GPUs were busy {mean:.0f} % of {steps.span.title}, and loading data took {share:.0%} of a step",
        explanation=f"Mean of {len(means)} GPUs over the timed steps; the least is {means[worst]:.0f} % "
        f"({worst[0]}, {worst[1].split('/')[1]}).",
        ranks=ranks_on(timeline, node),
        hosts=(node.name,),
        evidence=(
            sampled(node, worst[1], steps.begin, steps.ends[-1]),
            measured(steps.span, f"data {share:.1%} of a step"),
        ),
        recommendations=GPU_WAITS.advise(),
    )
    return Answer(findings=(finding,), why=why)
