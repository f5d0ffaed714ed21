"""Published training runs as the estimate's own request, read from the tables in ``published/``."""

import csv
from collections.abc import Iterator

from raybench.hardware.gpus import gpu_for
from raybench.performance_model.layout import Layout, Network
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.request.heaviest import heaviest
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.setup.strategies import Strategy
from raybench.performance_model.setup.training_setup import TrainingSetup
from tests.performance_model.published_run import FOLDER, PublishedRun
from tests.performance_model.published_tables import other_runs

# hidden, heads, layers: scripts/train/yamls/pretrain of llm-foundry
_MPT = {
    "mpt-125m": (768, 12, 12), "mpt-350m": (1024, 16, 24), "mpt-760m": (1536, 12, 24), "mpt-1b": (2048, 16, 24),
    "mpt-3b": (2560, 20, 32), "mpt-7b": (4096, 32, 32), "mpt-13b": (5120, 40, 40), "mpt-30b": (7168, 56, 48),
    "mpt-70b": (8192, 64, 80),
}  # fmt: skip
_STRATEGIES: dict[str, Strategy] = {"FULL_SHARD": "fsdp", "SHARD_GRAD_OP": "fsdp-grad-op"}
# The machines that MosaicML rents out: 8 x 400 Gbit/s with H100, 8 x 200 Gbit/s with A100; shares as docs/methods.md.
_NETWORKS = {
    "h100": Network(node_gb_per_s=0.8 * 450, fabric_gb_per_s=0.92 * 400),
    "a100": Network(node_gb_per_s=0.8 * 300, fabric_gb_per_s=0.92 * 200),
}


def published_runs() -> Iterator[PublishedRun]:
    """All rows of all tables; FP8 ones are left out, since the estimate knows no FP8."""
    with (FOLDER / "llm_foundry.csv").open() as file:
        for row in csv.DictReader(file):
            if "fp8" not in row["precision"]:
                yield _of_llm_foundry(row)
    with (FOLDER / "qwen.csv").open() as file:
        yield from map(_of_qwen, csv.DictReader(file))


def all_runs() -> tuple[PublishedRun, ...]:
    """Those, and the rows of ``others.csv``."""
    return (*published_runs(), *other_runs())


def _of_llm_foundry(row: dict[str, str]) -> PublishedRun:
    hidden, heads, layers = _MPT[row["model"]]
    length, ranks, accumulation = (int(row[name]) for name in ("sequence_length", "world_size", "accumulation"))
    family, _, memory = row["gpu"].partition("_")
    gpu = gpu_for(f"a100-{memory.removesuffix('gb')}gb" if family == "a100" else family)
    setup = TrainingSetup(
        batch_size=int(row["batch_size"]),
        sequence_length=length,
        strategy=_STRATEGIES[row["sharding"]],
        checkpointing=row["checkpointing"] == "True",
        whole_attention=True,  # attn_impl: triton
        gradients_kept=accumulation > 1,
        compiled=False,
    )
    return PublishedRun(
        name=" ".join(row[name] for name in ("model", "gpu", "world_size", "sequence_length", "batch_size")),
        source="llm-foundry",
        request=EstimateRequest(
            model=_mpt(row["model"], (hidden, heads, layers), length),
            setup=setup,
            layout=Layout(world_size=ranks, ranks_per_node=8),
            network=_NETWORKS[family],
            accumulation=accumulation,
            gpu=gpu,
            memory_bytes=gpu.memory_bytes,
            kernels_known=False,
            loss_known=False,
        ),
        parameters=int(row["parameters"]),
        tokens_per_second=float(row["tokens_per_second_per_gpu"]) * ranks,
    )


def _mpt(name: str, size: tuple[int, int, int], length: int) -> Transformer:
    hidden, heads, layers = size
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        feedforward=4 * hidden,
        vocabulary=50368,
        gated=False,
        norm="layer",
        tied=True,
        positions=length,
        context=length,
    )


# hidden, heads, layers, feedforward, vocabulary: config.json of each
_QWEN = {
    "qwen-1.8b": (2048, 16, 24, 5504, 151936), "qwen-7b": (4096, 32, 32, 11008, 151936),
    "qwen-14b": (5120, 40, 40, 13696, 152064), "qwen-72b": (8192, 64, 80, 24576, 152064),
}  # fmt: skip


def _of_qwen(row: dict[str, str]) -> PublishedRun:
    """LoRA of rank 64 on all linear layers, one sample a micro-batch, 8 of them a step, blocks computed again."""
    hidden, heads, layers, feedforward, vocabulary = _QWEN[row["model"]]
    length, gpu = int(row["sequence_length"]), gpu_for("a100")
    model = Transformer(
        name=row["model"],
        layers=layers,
        hidden=hidden,
        heads=heads,
        feedforward=feedforward,
        vocabulary=vocabulary,
        qkv_biases=True,
        context=length,
    )
    setup = heaviest(
        TrainingSetup(
            batch_size=1,
            sequence_length=length,
            checkpointing=True,
            lora_rank=64,
            quantized=row["method"] == "qlora",
            strategy="zero2" if row["method"] == "qlora" else "ddp",  # finetune_qlora_single_gpu.sh; the other has none
            gradient_bytes=2,
            compiled=False,
            packing="gptq",
            loss="narrow" if row["method"] == "qlora" else "plain",  # fp16 by DeepSpeed; bf16 by autocast
        ),
        kernels_known=False,
        loss_known=True,
    )
    return PublishedRun(
        name=f"{row['model']} {row['method']} {length}",
        source="Qwen",
        request=EstimateRequest(
            model=model,
            setup=setup,
            layout=Layout(world_size=1, ranks_per_node=1),
            network=_NETWORKS["a100"],
            accumulation=8,
            gpu=gpu,
            memory_bytes=gpu.memory_bytes,
            kernels_known=False,
            loss_known=True,
        ),
        parameters=model.parameters,
        tokens_per_second=8 * length / float(row["seconds"]),
        memory_bytes=float(row["memory_gb"]) * 1e9,
    )
