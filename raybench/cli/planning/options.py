"""Options that ``raybench estimate`` and ``raybench plan`` share: the machine, its price, what is trained and how."""

from typing import Any

import click

from raybench.services.estimating.setup_asked import BYTES

MACHINE_OPTIONS: list[Any] = [
    click.option("--node-type", metavar="NAME", help="A machine as it is sold, such as p5.48xlarge or 'DGX H100': its "
                 "GPUs, NICs and list price."),
    click.option("--gpu", metavar="NAME", help="H100, A100, L40S, ..., or a device name of nvidia-smi."),
    click.option("--memory", metavar="SIZE", help="Memory of a GPU, such as 80G, instead of the table's."),
    click.option("--nics", type=int, help="NICs a node, with --nic-gbit."),
    click.option("--nic-gbit", type=float, help="Line rate of one NIC, Gbit/s; 92 % of it is expected."),
    click.option("--nic-gb-per-s", type=float, help="What all NICs of a node together carry, measured, GB/s."),
    click.option("--node-gb-per-s", type=float, help="What a GPU's links within the node carry, measured, GB/s."),
    click.option("--power-limit", type=float, metavar="WATTS", help="What each GPU is limited to, as nvidia-smi -pl "
                 "sets it; H100 and H200 SXM.  [default: 700]"),
    click.option("--efficiency", metavar="LOW:HIGH", help="Share of the GPU's peak that computation reaches.  "
                 "[default: as published trainings of such a size]"),
]  # fmt: skip
PRICE_OPTIONS: list[Any] = [
    click.option("--price", type=float, help="Of a node for an hour.  [default: the node type's list price]"),
    click.option("--currency", default="USD", show_default=True, help="Of --price."),
]
WORKLOAD_OPTIONS: list[Any] = [
    click.option("--sequence-length", type=int, help="Tokens a sample.  [default: the model's, at most 4096]"),
    click.option("--dtype", type=click.Choice(["auto", *BYTES]), default="auto", help="Type of the computation.  "
                 "[default: bf16; fp16 on a GPU without it]"),
    click.option("--offload-activations/--no-offload-activations", default=False,
                 help="Keep the blocks' activations in CPU memory until the backward pass (torchtune, trl; "
                 "DeepSpeed's cpu_checkpointing)."),
]  # fmt: skip
KERNEL_OPTIONS: list[Any] = [
    click.option("--kernels", type=click.Choice(["plain", "fused"]), help="PyTorch's own operations, or fused ones "
                 "(flash-attn, Liger, Apex, Transformer Engine).  [default: unknown, both are counted with]"),
    click.option("--loss", type=click.Choice(["plain", "fused", "chunked", "transformers"]), help="Cross entropy in "
                 "fp32, fused over logits in the compute type, in chunks of them, or as transformers has it.  "
                 "[default: unknown, all are counted with]"),
    click.option("--no-flash-attention/--flash-attention", "no_flash_attention", default=None, help="Attention that "
                 "stores its probabilities, or one that does not (flash-attn, sdpa).  [default: the program's, else "
                 "none are stored]"),
    click.option("--native-attention/--no-native-attention", default=None, help="Whether attention runs on the "
                 "instructions of the GPU's own generation (FlashAttention-3 and 4, cuDNN, Transformer Engine) or on "
                 "Ampere's (FlashAttention-2).  [default: unknown, the bounds hold either way]"),
]  # fmt: skip
