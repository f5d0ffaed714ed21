"""The plan of a study for a terminal: what it compares, and how often. Pure."""

from raybench.documents.study.plan import Study
from raybench.reports.builders.asked import Asked
from raybench.reports.model import Facts, Report
from raybench.reports.text import count_of


def plan_tables(plan: Study, _: Asked) -> Report:
    """The report: a line a variant with the options that are its own."""
    shape = f"{count_of(len(plan.variants), 'variant')} x {count_of(plan.repeats, 'repeat')}"
    name = f"raybench study {plan.kind}, a plan: {shape} of 'raybench {' '.join(plan.workload)}'"
    variants = tuple((one.name, " ".join(one.arguments) or "as the workload says") for one in plan.variants)
    return Report(
        name=name, title=name, verdict="", reason="", lead="", when=f"seed {plan.seed}", blocks=(Facts(pairs=variants),)
    )
