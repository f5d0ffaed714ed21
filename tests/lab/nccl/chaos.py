"""Jobs with random faults, none to three at once: ``python -m tests.lab.nccl --chaos 60 --seed 7``.

Nothing is known of what is to be said but this: a job that failed or hung is never ``ok``, and one that went through
is never ``critical``. Half of the jobs have a launcher, which tells how their ranks ended; of the others some die
without a word in the log, which no diagnosis can know: those are counted apart, to be read.
"""

import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .hardware import Hardware
from .job import ScenarioOutcome
from .judge import Said
from .scenario import GPUDIRECT, PLAY, Scenario, Steps, Verdict, machine

_CALLS_OF_VERBS = (
    "open_device", "query_device", "query_port", "query_gid", "alloc_pd", "create_cq", "create_qp", "modify_qp.INIT",
    "modify_qp.RTR", "modify_qp.RTS", "reg_mr", "post_send",
)  # fmt: skip
_CALLS_OF_CUDA = (
    "cuMemAlloc", "cuMemCreate", "cuMemHostRegister", "cuMemHostAlloc", "cuIpcOpenMemHandle", "cuStreamCreate",
    "cuEventRecord", "cuLaunchKernelEx", "cuMemcpyHtoDAsync", "cuMemImportFromShareableHandle",
)  # fmt: skip
_CALLS_OF_SYSTEM = ("socket", "connect", "pthread_create", "malloc", "getifaddrs", "mkstemp", "fallocate")
_DEEDS_OF_CUDA = ("2", "1", "46", "214", "217", "700", "719", "802", "kill", "stop", "exit", "sleep2")
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "NCCL_NET": ("IB", "Socket", "AWS Libfabric"),
    "NCCL_NET_PLUGIN": ("none", "aws-ofi"),
    "NCCL_IB_HCA": ("mlx5_0", "=mlx5_0", "^mlx5", "mlx5_9"),
    "NCCL_IB_DISABLE": ("0", "1", "true"),
    "NCCL_IB_GID_INDEX": ("0", "3", "7"),
    "NCCL_IB_TIMEOUT": ("14", "22", "99"),
    "NCCL_SOCKET_IFNAME": ("eth0", "ib0", "lo", "^eth", "^docker0"),
    "NCCL_SOCKET_FAMILY": ("AF_INET", "AF_INET6"),
    "NCCL_NET_GDR_LEVEL": ("LOC", "SYS"),
    "NCCL_P2P_DISABLE": ("0", "1"),
    "NCCL_SHM_DISABLE": ("0", "1"),
    "NCCL_CUMEM_ENABLE": ("0", "1"),
    "NCCL_BUFFSIZE": ("4M", "1048576"),
    "NCCL_NTHREADS": ("100", "256"),
    "NCCL_TOPO_FILE": ("/etc/nccl/topo.xml",),
    "NCCL_HOSTID": ("pod-a", "pod-b"),
    "NCCL_RAS_ENABLE": ("0", "1"),
    "NCCL_DEBUG_SUBSYS": ("INIT,NET", "ALL", "COLL"),
}
_PROGRAMS: tuple[Steps, ...] = (
    ("init", "allreduce", "meet"),
    ("init", "allreduce", "allreduce=40000", "broadcast", "meet"),
    ("init", *["allreduce=9000"] * 8, "meet"),
    ("init", "allreduce", "sleep=2.5", "allreduce", "meet"),
    ("init", "split", "allreduce", "meet"),
)
_SECONDS = 14.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of a job, what was said of it, and what is wrong with that; ``silent`` where no line could tell."""

    failed: bool
    wrong: str
    silent: bool


def random_scenario(seed: int, number: int) -> Scenario:
    """The job of that number: the same for the same seed."""
    dice = random.Random(f"{seed}:{number}")
    per_node = dice.choice((1, 1, 2))
    scenario = Scenario(
        name=f"chaos-{seed}-{number}",
        broken="",
        verdict=Verdict(),
        nodes=dice.choice((1, 2, 2, 2, 3)) if per_node == 2 else dice.choice((2, 2, 3, 4)),
        ranks_per_node=per_node,
        hardware=_machine(dice, per_node),
        environment={**PLAY, **(GPUDIRECT if dice.random() < 0.7 else {})},
        steps=dice.choice(_PROGRAMS),
        seconds=_SECONDS,
        grace=3.0,
    )
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3))):
        scenario = dice.choice(_FAULTS)(dice, scenario)
    return replace(scenario, broken=scenario.broken.strip("; ") or "nothing")


def judge(outcome: ScenarioOutcome, said: Said, *, launcher: bool) -> Judged:
    """Hold what was said against how the ranks ended."""
    failed = any(status != 0 for status in outcome.statuses)
    verdict = said.document["verdict"]
    wrong = "failed, and is ok" if failed and verdict == "ok" else ""
    if not failed and verdict == "critical":
        wrong = "went through, and is critical"
    silent = bool(wrong) and failed and not launcher
    return Judged(failed=failed, wrong=wrong, silent=silent)


def launcher_lines(scenario: Scenario, statuses: tuple[int | None, ...]) -> str:
    """What Slurm prints of ranks that did not end well, those that had to be killed last."""
    lines = []
    ranks = [rank for rank in range(scenario.nodes * scenario.ranks_per_node) if rank not in scenario.absent]
    for rank, status in zip(ranks, statuses, strict=True):
        where = f"srun: error: node{rank // scenario.ranks_per_node + 1}: task {rank}:"
        if status is not None and status < 0:
            word = "Killed" if -status == signal.SIGKILL else "Segmentation fault (core dumped)"
            lines.append(f"{where} {word}")
        elif status:
            lines.append(f"{where} Exited with exit code {status}")
    if None in statuses:
        lines.append("slurmstepd: error: *** STEP 12.0 ON node1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***")
    return "".join(f"{line}\n" for line in lines)


def _machine(dice: random.Random, gpus: int) -> Hardware | None:
    kind = dice.choice(("ib:400", "ib:400", "roce:200", "none", "verbs"))
    if kind == "none":
        return None
    nics = ",".join(f"mlx5_{number}:{kind}" for number in range(gpus)) if kind != "verbs" else ""
    return machine(nics, gpus=gpus, peermem=dice.random() < 0.8)


def _on(dice: random.Random, scenario: Scenario, what: str, variables: Mapping[str, str]) -> Scenario:
    """Set variables on one rank or on all."""
    if dice.random() < 0.4:
        environment = {**scenario.environment, **variables}
        return replace(scenario, environment=environment, broken=f"{scenario.broken}; all: {what}")
    rank = dice.randrange(scenario.nodes * scenario.ranks_per_node)
    own = {**scenario.environment_of.get(rank, {}), **variables}
    environment_of = {**scenario.environment_of, rank: own}
    return replace(scenario, environment_of=environment_of, broken=f"{scenario.broken}; rank {rank}: {what}")


def _verbs(dice: random.Random, scenario: Scenario) -> Scenario:
    call = (
        f"{dice.choice(_CALLS_OF_VERBS)}:{dice.choice((1, 1, 2, 5))}={dice.choice((1, 12, 13, 14, 19, 22, 101, 110))}"
    )
    return _on(dice, scenario, call, {"FAKEIB_FAULT": call})


def _completion(dice: random.Random, scenario: Scenario) -> Scenario:
    fault = f"completion:{dice.choice((1, 10, 40))}={dice.choice((4, 5, 9, 10, 11, 12, 12, 13))}"
    return _on(dice, scenario, fault, {"FAKEIB_FAULT": fault})


def _event(dice: random.Random, scenario: Scenario) -> Scenario:
    event = f"{dice.choice((1, 2))}={dice.choice((3, 8, 9, 10, 10, 11, 16, 18))}"
    return _on(dice, scenario, f"event {event}", {"FAKEIB_EVENT": event})


def _cuda(dice: random.Random, scenario: Scenario) -> Scenario:
    fault = f"{dice.choice(_CALLS_OF_CUDA)}:{dice.choice((1, 3, 10, 25))}={dice.choice(_DEEDS_OF_CUDA)}"
    return _on(dice, scenario, fault, {"FAKEGPU_FAULT": fault})


def _system(dice: random.Random, scenario: Scenario) -> Scenario:
    fault = (
        f"{dice.choice(_CALLS_OF_SYSTEM)}:{dice.choice((1, 4, 12, 60))}={dice.choice((11, 12, 13, 24, 28, 111, 113))}"
    )
    return _on(dice, scenario, fault, {"FAKESYS_FAULT": fault})


def _variable(dice: random.Random, scenario: Scenario) -> Scenario:
    name = dice.choice(sorted(_VARIABLES))
    value = dice.choice(_VARIABLES[name])
    return _on(dice, scenario, f"{name}={value}", {name: value})


def _other_node(dice: random.Random, scenario: Scenario) -> Scenario:
    gpus = scenario.ranks_per_node
    text, hardware = dice.choice((
        ("no NIC", machine(gpus=gpus)),
        ("no libibverbs", None),
        ("a NIC that is down", machine("mlx5_0:ib:400:down", gpus=gpus)),
        ("a RoCE NIC", machine("mlx5_0:roce:200", gpus=gpus)),
        ("a far NIC", machine("mlx5_0:ib:400:far", gpus=gpus)),
    ))  # fmt: skip
    node = dice.randint(1, scenario.nodes)
    hardware_of = {**scenario.hardware_of, node: hardware}
    return replace(scenario, hardware_of=hardware_of, broken=f"{scenario.broken}; node {node} has {text}")


def _world(dice: random.Random, scenario: Scenario) -> Scenario:
    size = scenario.nodes * scenario.ranks_per_node
    what = dice.choice(("absent", "size", "twice", "gpu"))
    if what == "absent":
        rank = dice.randrange(1, size)
        return replace(scenario, absent=(rank,), broken=f"{scenario.broken}; rank {rank} never comes")
    variables = {"size": {"RANK_WORLD_SIZE": str(size + 1)}, "twice": {"RANK_RANK": "0"}, "gpu": {"RANK_DEVICE": "0"}}
    return _on(dice, scenario, what, variables[what])


def _death(dice: random.Random, scenario: Scenario) -> Scenario:
    rank = dice.randrange(scenario.nodes * scenario.ranks_per_node)
    cut = dice.randrange(len(scenario.steps))
    last = dice.choice(("die", "link-down"))
    steps = (*scenario.steps[:cut], last, *scenario.steps[cut:])
    steps_of = {**scenario.steps_of, rank: steps}
    return replace(scenario, steps_of=steps_of, broken=f"{scenario.broken}; rank {rank}: {last} before step {cut}")


def _shared_memory(dice: random.Random, scenario: Scenario) -> Scenario:
    size = dice.choice(("64k", "1m", "64m"))
    prepare = {**scenario.prepare, 0: f"mount -o remount,size={size} /dev/shm"}
    return replace(scenario, prepare=prepare, broken=f"{scenario.broken}; /dev/shm of {size}")


_FAULTS: tuple[Callable[[random.Random, Scenario], Scenario], ...] = (
    _verbs, _completion, _event, _cuda, _system, _variable, _variable, _other_node, _world, _death, _shared_memory,
)  # fmt: skip
