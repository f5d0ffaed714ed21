"""The steps of the proof, in their order: one row each. Their limits add up to at most 26 minutes."""

from functools import partial

from tests.gpu import memory, messages, node, system, training
from tests.gpu.step import Step

LONGEST_SECONDS = 1560

STEPS: tuple[Step, ...] = (
    Step(
        id="machine",
        proves="torch runs on this GPU: code for its architecture, an NCCL of its own",
        compared="a sum on the device, exactly; the architectures of the build with the GPU's",
        seconds=30,
        run=system.machine,
    ),
    Step(
        id="selftest",
        proves="raybench selftest --need-gpu passes as a user runs it",
        compared="its exit code with 0",
        seconds=145,
        run=system.selftest,
        not_short="it has tests of its own",
    ),
    Step(
        id="node-tests",
        proves="the active tests of raybench preflight --level 3 on this GPU, their burn cut short",
        compared="results that are known, each element; bf16 with the peak of the hardware table, 0.4 to 1.0",
        seconds=65,
        run=node.node_tests,
    ),
    Step(
        id="collectives-1",
        proves="every collective over NCCL on one rank",
        compared="each element with what it must be, exactly or within a few roundings",
        seconds=40,
        run=partial(messages.collectives, ranks=1),
    ),
    Step(
        id="collectives-2",
        proves="every collective between two ranks on one GPU, over the network transport",
        compared="each element, as above",
        seconds=50,
        run=partial(messages.collectives, ranks=2),
    ),
    Step(
        id="collectives-4",
        proves="every collective between four ranks on one GPU",
        compared="each element, as above",
        seconds=80,
        run=partial(messages.collectives, ranks=4),
    ),
    Step(
        id="nccl-tests",
        proves="bandwidths are those that nccl-tests gives",
        compared="algbw at 256 MiB and 1 GiB with nccl-tests' on the same GPU, 0.9 to 1.1",
        seconds=125,
        run=messages.nccl_tests,
        gpu_only="nccl-tests needs a GPU",
    ),
    Step(
        id="nccl-logs",
        proves="raybench diagnose reads the logs of this NCCL",
        compared="ranks and network with those of the launch; no critical finding",
        seconds=30,
        run=messages.nccl_logs,
    ),
    Step(
        id="event-clock",
        proves="events on the device measure what passes",
        compared="a block by events with the wall clock around it, 0.98 to 1.002",
        seconds=25,
        run=messages.event_clock,
    ),
    Step(
        id="train-ddp",
        proves="DDP on two ranks of one GPU, gradients over NCCL",
        compared="losses and gradient norms with one process, within the type's rounding",
        seconds=45,
        run=partial(training.strategy, name="ddp", ranks=2),
    ),
    Step(
        id="train-fsdp",
        proves="FSDP2 on two ranks of one GPU",
        compared="losses and gradient norms, as above",
        seconds=45,
        run=partial(training.strategy, name="fsdp", ranks=2),
    ),
    Step(
        id="train-lora",
        proves="LoRA on a frozen base, on two ranks of one GPU",
        compared="losses and gradient norms, as above",
        seconds=30,
        run=partial(training.strategy, name="lora", ranks=2),
        not_short="train-qlora runs the same code and more",
    ),
    Step(
        id="train-qlora",
        proves="QLoRA on our own 4-bit base, on two ranks of one GPU",
        compared="losses and gradient norms, as above",
        seconds=30,
        run=partial(training.strategy, name="qlora", ranks=2),
    ),
    Step(
        id="qlora-7b-own",
        proves="QLoRA of 7 billion parameters, our own",
        compared="losses finite; peak memory from 3 to 16 GiB",
        seconds=70,
        run=partial(training.large, adapter="own"),
        not_short="train-qlora runs the same code",
    ),
    Step(
        id="qlora-7b-peft",
        proves="QLoRA of 7 billion parameters by peft and bitsandbytes",
        compared="losses finite; peak memory from 3 to 16 GiB",
        seconds=70,
        run=partial(training.large, adapter="peft"),
        not_short="it would only say that bitsandbytes needs a GPU",
    ),
    Step(
        id="train-bf16",
        proves="bfloat16, text by a DataLoader with workers and pinned memory, and MFU against the hardware table",
        compared="losses and gradient norms; MFU between 0.001 and 0.95",
        seconds=30,
        run=partial(training.strategy, name="ddp", dtype="bfloat16", data="text", data_workers=2),
    ),
    Step(
        id="train-fp16",
        proves="float16 with loss scaling",
        compared="losses and gradient norms, as above",
        seconds=30,
        run=partial(training.strategy, name="ddp", dtype="float16"),
        not_short="train-bf16 runs the same code but for the scaler",
    ),
    Step(
        id="train-fp8",
        proves="float8 products where the GPU has them",
        compared="losses and gradient norms, as above",
        seconds=30,
        run=partial(training.strategy, name="ddp", dtype="float8"),
        not_short="it would only say that float8 needs a GPU",
    ),
    Step(
        id="train-compile",
        proves="torch.compile of a step",
        compared="losses and gradient norms, as above",
        seconds=75,
        run=partial(training.strategy, name="ddp", compile=True),
        gpu_only="compiling for a CPU says nothing of Triton, and takes a minute",
    ),
    Step(
        id="step-parity",
        proves="raybench's step costs what a plain torch loop costs",
        compared="seconds of a step with a plain loop's, alternating, 0.99 to 1.01; "
        "where kernels wait for the processor, to 1.03",
        seconds=65,
        run=training.step_parity,
    ),
    Step(
        id="memory-estimate",
        proves="the analytic memory estimate",
        compared="the allocator's peak with the estimate, 0.95 to 1.05, of four strategies",
        seconds=85,
        run=memory.estimate,
    ),
    Step(
        id="largest-batch",
        proves="the search for the largest batch leaves a context that works",
        compared="the next batch was refused; a collective afterwards, each element",
        seconds=110,
        run=memory.largest_batch,
        not_short="tests of the search run beside it",
    ),
    Step(
        id="checkpoint",
        proves="a sharded checkpoint from the device to a disk and back",
        compared="every element, bit for bit",
        seconds=40,
        run=memory.checkpoint,
    ),
    Step(
        id="profiler-overlap",
        proves="the profiler's kernels are told apart into communication and computation",
        compared="operations seen, traces kept with NVTX ranges, and that their seconds can be",
        seconds=40,
        run=training.overlap,
        not_short="tests of the profiler's traces run beside it",
    ),
    Step(
        id="agent-gpu",
        proves="the agent reads the GPU by NVML",
        compared="utilization of 50 % and more, and power, while a rank works",
        seconds=25,
        run=system.agent_samples,
    ),
    Step(
        id="ray-masking",
        proves="a rank sees all GPUs of its node although Ray masks them for its actor",
        compared="GPUs that ranks see with those that the driver lists",
        seconds=55,
        run=system.ray_masking,
        not_short="a cluster takes seconds; tests/execution start many",
    ),
    Step(
        id="ray-shared-gpu",
        proves="two emulated nodes share one GPU",
        compared="a verified all_reduce over NCCL between them",
        seconds=55,
        run=system.shared_gpu,
        not_short="a cluster takes seconds; tests/execution start many",
    ),
    Step(
        id="straggler",
        proves="a slowed rank is named, and nobody else",
        compared="who is named with who was slowed",
        seconds=40,
        run=training.straggler,
    ),
)


def step_of(name: str) -> Step:
    """The step of an id. Raises KeyError for one that is none."""
    for step in STEPS:
        if step.id == name:
            return step
    raise KeyError(f"{name} is no step; there are {', '.join(one.id for one in STEPS)}")
