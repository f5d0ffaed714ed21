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
LOSSES_DIFFER = MeasuredRule(
    id="losses-differ",
    title="Strategies that train the same do not reach the same loss",
    severity="critical",
    text="""
Trainings of one model from one seed on the same samples have different losses.

Symptom: in a run of several strategies, or in a study whose variants take the same global batch, the losses of the
first timed step are further apart than rounding makes (1 % in fp32, 5 % in bf16).

Why: a strategy that averages other gradients (a rank left out, a scale that is wrong) or takes other samples trains
something else, and its speed is of no use.

Not when: the losses begin alike and end apart, as rounding grows over many steps: that is told, and called unknown.
Nor with LoRA, with gradients that are sent rounded, or with random samples on another number of ranks.

Source: the losses of all timed steps, and the least validation loss.
""",
    recommended=advice(
        "compare-with-one-process", "Look at the check against a single process of each strategy (leave --verify on)."
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

RULES = (LOSS_NOT_FINITE, LOSSES_DIFFER, DOES_NOT_FIT, DATA_LOADING_SLOW)
