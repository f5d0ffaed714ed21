"""What trainings and memory benchmarks find, beside ``straggler`` and ``sync-overhead``, which logs show as well."""

from raybench.finding_rules.rule import MeasuredRule, advice

LOSS_NOT_FINITE = MeasuredRule(
    id="loss-not-finite",
    title="The loss is not a finite number",
    severity="critical",
    text="""
A training benchmark has a loss that is NaN or infinite.

Symptom: the loss of a timed step is NaN or infinite. The finding names the first such step.

Why: the learning rate is too high for the model, or float16 overflows. The step times are then those of a training that
learns nothing, and a GPU may compute NaN at another speed.

Not when: the loss is high, or does not fall: that is not a question of speed.

Source: the losses of all timed steps.
""",
    recommended=advice(
        "lower-learning-rate", "Lower --learning-rate; with float16 take bfloat16 where the GPU has it."
    ),
)
DOES_NOT_FIT = MeasuredRule(
    id="does-not-fit",
    title="Not one sample fits into memory",
    severity="critical",
    text="""
A training step with a batch of one takes more memory than there is.

Symptom: `raybench memory` finds no batch size that fits into the GPU, or into --memory-limit.

Why: parameters, gradients, optimizer state and the activations of one sample are larger than the memory of one rank.

Not when: the search was cut before its end.

Source: what the allocator says after a step; `raybench estimate` calculates the same before a run.
""",
    recommended=advice(
        "take-less-memory",
        "Shard with --strategy fsdp, add --activation-checkpointing, or shorten --sequence-length.",
    ),
)

DATA_LOADING_SLOW = MeasuredRule(
    id="data-loading-slow",
    title="Steps of a training wait for its data",
    severity="warning",
    text="""
A training on data from files waits for its loader for more than a tenth of its steps.

Symptom: the phase data, which is what a rank waits for the next micro-batch, is more than 10 % of the mean step.

Why: reading and preparing samples takes longer than the step, or is done within it, by no worker that is ahead.

Not when: the data are made on the spot (random, spiral, text), or the share is at most 10 %.

Source: the phases of all timed steps, mean over steps and ranks.
""",
    recommended=advice("load-data-ahead", "Raise --data-workers, or put the data on faster storage."),
)

RULES = (LOSS_NOT_FINITE, DOES_NOT_FIT, DATA_LOADING_SLOW)
