"""The vocabulary of the command line: every option of every command, by topic, and the names that options once had.

A name means the same wherever it stands: it takes a value everywhere or nowhere, and has one topic
(`tests/cli/test_usage.py`). Where an option of ours is one of another program, it has that program's name: `--check`,
`--diff` and `--tags` are Ansible's, `--time` is Slurm's (a bare number is minutes there), `-b -n -w -d -o -c` of
`raybench run` are those of nccl-tests.
"""

from collections.abc import Mapping
from types import MappingProxyType

# title -> names, in the order in which a help shows topics, and options that are declared in no order of their own
TOPICS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "Hosts": (
        "--inventory", "--limit", "--group", "--hosts", "--hostfile", "--head", "--forks", "--host-timeout",
        "--ssh-config", "--accept-new", "--allow-missing", "--python", "--wheelhouse",
    ),
    "Cluster": (
        "--nodes", "--gpus-per-node", "--world-size", "--address", "--backend", "--master-address", "--master-port",
        "--env", "--allow-mixed", "--keep-warm", "--min-nodes",
    ),
    "Job": (
        "--image", "--form", "--partition", "--account", "--time", "--job-name", "--exclusive", "--setup",
        "--sbatch-option", "--srun-option", "--launcher-option", "--shared-folder", "--start-timeout",
        "--gpu-resource", "--resource", "--shm", "--toleration", "--node-selector", "--queue", "--image-pull-secret",
        "--host-network", "--namespace", "--time-limit", "--wait", "--fetch",
    ),
    "Workload": (
        "--suite", "--strategy", "--program", "--model", "--batch-size", "--sequence-length", "--sizes", "--p2p-size",
        "--dtype", "--op", "--operation", "--root", "--placement", "--method", "--qlora", "--optimizer",
        "--optimizer-dtype", "--gradient-dtype", "--gradient-accumulation-steps", "--offload-activations",
        "--mean-tokens", "--activation-checkpointing", "--selective-checkpointing", "--recompute-modules",
        "--activation-func-fp8-input-store", "--use-precision-aware-optimizer",
        "--samples-per-step", "--tokens", "--samples",
        "--epochs", "--to", "--layouts", "--modes", "--compression", "--endpoint", "--keep-checkpoints",
    ),
    "Variants": (
        "--networks", "--strategies", "--batch-sizes", "--models", "--mode", "--comm-hooks", "--bucket-sizes",
        "--algorithms", "--buffer-sizes", "--dtypes",
    ),
    "Model": (
        "--hidden-dims", "--layers", "--hidden-size", "--heads", "--kv-heads", "--intermediate-size", "--vocabulary",
        "--mtp-layers",
        "--weights", "--kernels", "--loss", "--no-flash-attention", "--native-attention", "--masked-attention",
        "--dropout", "--autocast", "--lora-rank", "--lora-alpha", "--lora-targets", "--lora-dropout", "--adapter",
        "--base-dtype",
    ),
    "Parallelism": (
        "--sharding", "--shards", "--bucket-mib", "--bucket-view", "--comm-hook", "--powersgd-rank",
        "--reduce-each", "--reduce-dtype",
        "--parameter-dtype", "--tensor-parallel", "--sequence-parallel", "--pipeline-parallel", "--virtual-stages",
        "--context-parallel", "--expert-parallel", "--expert-tensor-parallel", "--token-dispatcher",
        "--overlap-experts", "--force-load-balancing", "--overlap", "--cpu-offload", "--compile",
        "--cuda-graphs",
    ),
    "Data and learning": (
        "--data", "--tokenizer", "--data-workers", "--validation-share", "--eval-every", "--learning-rate",
        "--lr-schedule", "--lr-warmup-steps", "--clip-grad-norm", "--seed",
    ),
    "Machine": (
        "--node-type", "--gpu", "--power-limit", "--gpus-installed", "--memory", "--nics", "--nic-gbit", "--network",
        "--no-nvls",
        "--nic-gb-per-s", "--node-gb-per-s", "--bandwidth", "--latency-us", "--efficiency",
    ),
    "Cost": ("--price", "--currency", "--prices", "--epoch-samples", "--deadline", "--budget"),
    "Test": (
        "--scope", "--tool", "--devices", "--seconds", "--message-bytes", "--queue-pairs", "--streams", "--gpu-memory",
        "--gid-index", "--traffic-class", "--matchings", "--leaf-size", "--confirm-rounds", "--slow-ratio",
        "--outlier-ratio", "--emulated-ratio", "--max-latency-us", "--simulate", "--trials",
    ),
    "Checks": (
        "--only", "--skip", "--level", "--expect", "--need-gpu", "--quick", "--list-checks", "--inspect",
        "--remove-packages", "--tags", "--check", "--diff", "--rollback", "--list-tags", "--yes",
    ),
    "Measurement": (
        "--steps", "--warmup-steps", "--warmup", "--iters", "--blocks", "--repeats", "--max-repeats", "--overlap-steps",
        "--profile", "--nsys-command", "--saves", "--memory-limit", "--most-batch", "--verify", "--agent", "--isolate",
        "--continue-without", "--timeout", "--trial-timeout", "--request-timeout", "--log-limit", "--resume",
    ),
    "Watching": (
        "--interval", "--rounds", "--once", "--follow", "--log", "--pid", "--folder", "--max-bytes", "--begin",
        "--timezone", "--node", "--overwrite", "--bad", "--good", "--keep",
    ),
    "Acting": (
        "--state", "--slurm", "--kubernetes", "--apply", "--most-drained", "--force", "--resume-degraded",
        "--by-hostname", "--max-age", "--patches", "--prolog", "--prometheus", "--history",
    ),
    "Reading": (
        "--path", "--run", "--file-limit", "--host-limit", "--redact", "--fail-on", "--explain", "--list-rules",
        "--result", "--measured", "--baseline", "--gate", "--unlike",
    ),
    "Output": (
        "--config", "--output-dir", "--track", "--output", "--format", "--json", "--junit", "--plot", "--full",
        "--dry-run", "--quiet",
    ),
})  # fmt: skip
OTHER = "Other"

# old or other name -> the one that stands in the help; it is taken where that one is, and shown nowhere beside it
OLD_NAMES: Mapping[str, str] = MappingProxyType({
    "--accumulate": "--gradient-accumulation-steps",
    "--accumulation": "--gradient-accumulation-steps",
    "--check": "--inspect",
    "--dry-run": "--check",
    "--checkpoint-activations": "--activation-checkpointing",
    "--every": "--interval",
    "--feedforward": "--intermediate-size",
    "--gpu": "--need-gpu",
    "--hidden": "--hidden-size",
    "--keep": "--keep-checkpoints",
    "--leaf": "--leaf-size",
    "--limit": "--memory-limit",
    "--list": "--list-checks",
    "--name": "--job-name",
    "--time-limit": "--timeout",
    "--timeout": "--host-timeout",
    "--limit-seconds": "--trial-timeout or --request-timeout",
})  # fmt: skip
_TOPIC_OF = {name: title for title, names in TOPICS.items() for name in names}


def topic_of(names: tuple[str, ...]) -> str:
    """The topic of an option with these names: that of its long one."""
    return next((_TOPIC_OF[name] for name in names if name in _TOPIC_OF), OTHER)


def current_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Without those that are old names of another one among them."""
    return tuple(name for name in names if not any(other in OLD_NAMES.get(name, "").split(" or ") for other in names))
