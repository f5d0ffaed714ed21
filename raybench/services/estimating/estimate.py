"""What a training run will send, hold, take and cost, before it is run."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raybench.errors import UsageError
from raybench.services.estimating.effects import check_effects
from raybench.services.estimating.request import estimate_request
from raybench.services.estimating.results import measured_settings

if TYPE_CHECKING:
    from raybench.documents.estimate import EstimateReport, MeasuredSetting
    from raybench.services.estimating.options import EstimateOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedEstimate:
    """The estimate as its document."""

    report: "EstimateReport"

    @property
    def exit_code(self) -> int:
        """That of the command: 1 where the model does not fit."""
        return self.report.exit_code


def estimate(options: "EstimateOptions") -> FinishedEstimate:
    """Communication, memory, step time, throughput and cost; nothing is run. Raises UsageError for what cannot be."""
    from raybench.performance_model.estimate.estimate import estimate as estimated
    from raybench.performance_model.estimate.other_programs import other_programs
    from raybench.performance_model.estimate.report import estimate_report
    from raybench.performance_model.request.taken import checked, with_program

    settings = measured_settings(options)
    request = with_program(checked(estimate_request(options)))
    check_effects(options, request)
    found = estimated(request)
    told: tuple[MeasuredSetting, ...] = ()
    if settings:
        from raybench.services.estimating.measured import with_measured

        taking = with_measured(found, settings)
        found, told = taking.estimate, taking.told
    alone = found
    is_measured = found.measured is not None and found.measured.step_seconds is not None
    if not is_measured and (settings or options.measured):
        from raybench.services.estimating.own_runs import own_runs_of, with_corrections

        runs = own_runs_of(options, settings)
        if options.measured and found.traits is None:
            raise UsageError(f"--measured corrects a step time, and none is told here: {'; '.join(found.unknown)}")
        if runs and found.traits is not None:
            found = replace(estimated(replace(request, own_runs=runs)), measured=found.measured)
        if found.traits is not None:
            told = with_corrections(told, runs, settings, options)
    report = replace(estimate_report(found), measured=told, other_programs=other_programs(found))
    if found is not alone:
        report = replace(report, uncorrected_step_seconds=alone.step_seconds)
    return FinishedEstimate(report=report)
