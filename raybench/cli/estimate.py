"""``raybench estimate``: what a training run will send, hold, take and cost, before it is run."""

import json
import sys
from typing import Any

import click

from raybench.cli.cluster_options import with_options
from raybench.cli.output import printing
from raybench.cli.planning.command import PlanningCommand
from raybench.cli.planning.measured import MEASURED_OPTION, measured_runs
from raybench.cli.planning.options import KERNEL_OPTIONS, MACHINE_OPTIONS, PRICE_OPTIONS, WORKLOAD_OPTIONS

EXAMPLES = """\b
Examples:
  raybench estimate --model llama-8b --world-size 64 --strategy fsdp --node-type p5.48xlarge
  raybench estimate --model mixtral-8x7b --world-size 64 --strategy fsdp --node-type p5.48xlarge
  raybench estimate --model llama-70b --world-size 64 --node-type p5.48xlarge --strategy zero1 --tp 4 --pp 4 --vpp 5
  raybench estimate --model llama-70b --world-size 64 --gpu H100 --nics 8 --nic-gbit 400 --activation-checkpointing
  raybench estimate --model llama-7b --world-size 4 --gpus-per-node 1 --gpu A10 --nic-gb-per-s 1 --lora-rank 16 --qlora
  raybench estimate --model llama-8b --world-size 16 --gpu H100 --result runs/20261121-120000-ab12/result.json
  raybench estimate --model llama-8b --world-size 64 --node-type p5.48xlarge --strategy fsdp --program torchtitan
  raybench estimate --model llama-70b --world-size 64 --gpu H100 --strategy fsdp --measured '--world-size 8 took=9.4'
  raybench estimate --model gpt2-xl --layers 24 --world-size 16 --gpu A100 --bandwidth 92 --price 21.96 --json
"""

_OPTIONS: list[Any] = [
    click.option("--model", default="llama-8b", show_default=True, metavar="NAME|PATH",
                 help="tiny, gpt2, llama-8b, llama-70b, mixtral-8x7b, Qwen/Qwen2.5-32B, ...; an unknown one lists all. "
                 "Or the config.json of a Hugging Face model, its folder, or package.module:factory of a "
                 "torch.nn.Module."),
    click.option("--layers", type=int, help="Another number of layers than the model's."),
    click.option("--hidden-size", "--hidden", "hidden", type=int, help="Another hidden size."),
    click.option("--heads", type=int, help="Another number of attention heads."),
    click.option("--kv-heads", type=int, help="Another number of key and value heads."),
    click.option("--intermediate-size", "--feedforward", "feedforward", type=int,
                 help="Another inner width of the MLP."),
    click.option("--vocabulary", type=int, help="Another vocabulary."),
    click.option("--mtp-layers", type=int, metavar="N", help="Train so many layers of multi-token prediction as well, "
                 "as Megatron-LM's --mtp-num-layers does (DeepSeek-V3: 1).  [default: none]"),
    click.option("--world-size", type=int, default=8, show_default=True, help="Ranks, one per GPU."),
    click.option("--gpus-per-node", type=int, help="Ranks a node.  [default: the node type's, else 8]"),
    click.option("--strategy", metavar="ddp|fsdp|zero1|...",
                 help="How parameters, gradients and optimizer state are sharded: ddp, zero1, zero2, fsdp, "
                 "zero3, fsdp-grad-op, fsdp-hybrid; or distributed-optimizer, FULL_SHARD, HYBRID_SHARD, ...  "
                 "[default: the program's usual one, else ddp]"),
    click.option("--program", metavar="NAME[==RELEASE]", help="Which program trains: torchtitan, megatron-lm, "
                 "transformers, ...; an unknown one lists all. Of an older release as pip has it, such as "
                 "transformers==4.35. Kernels, loss, types of gradients and what else it decides are taken as it "
                 "has them, where no option says otherwise."),
    click.option("--tensor-parallel", "--tp", type=int, default=1, show_default=True, help="Ranks over which each "
                 "layer is cut."),
    click.option("--sequence-parallel/--no-sequence-parallel", default=None, help="With --tensor-parallel: also divide "
                 "activations as wide as the model.  [default: on, except with zero2]"),
    click.option("--overlap/--no-overlap", default=None, help="With zero1 and ddp: gradients and weights are sent "
                 "beside computation, as Megatron-LM does with --overlap-grad-reduce and --overlap-param-gather, or "
                 "after it.  [default: the program's, else beside it with ddp, and with zero1 unknown, the bounds hold "
                 "either way]"),
    click.option("--pipeline-parallel", "--pp", type=int, default=1, show_default=True, help="Stages of a pipeline "
                 "(1F1B)."),
    click.option("--virtual-stages", "--vpp", type=int, default=1, show_default=True, help="Parts of the model that "
                 "each pipeline rank has (interleaved 1F1B)."),
    click.option("--context-parallel", "--cp", type=int, default=1, show_default=True, help="Ranks over which each "
                 "sequence is cut."),
    click.option("--expert-parallel", "--ep", type=int, default=1, show_default=True, help="Ranks over which the "
                 "experts of each layer are spread."),
    click.option("--expert-tensor-parallel", "--etp", type=int, help="Ranks over which each expert is cut: 1, or as "
                 "many as --tensor-parallel.  [default: open, both are counted with]"),
    click.option("--token-dispatcher", type=click.Choice(["alltoall", "deepep", "hybridep"]), help="With "
                 "--expert-parallel: NCCL's all_to_all of all copies of a token, or kernels that send it once to each "
                 "node (Megatron-LM's --moe-token-dispatcher-type flex).  [default: unknown, the bounds hold either "
                 "way]"),
    click.option("--overlap-experts/--no-overlap-experts", default=None, help="With --expert-parallel: tokens are sent "
                 "while another micro-batch is computed (Megatron-Core's --overlap-moe-expert-parallel-comm).  "
                 "[default: unknown, the bounds hold either way]"),
    click.option("--force-load-balancing/--no-force-load-balancing", default=None, help="With --expert-parallel: "
                 "experts get equally many tokens whatever the router says, as benchmarks have it (Megatron-LM's "
                 "--moe-router-force-load-balancing), or drop what is beyond their share.  [default: unknown, the "
                 "bounds hold either way]"),
    *MACHINE_OPTIONS,
    click.option("--bandwidth", type=float, help="Measured bus bandwidth of all ranks, GB/s (raybench run)."),
    click.option("--result", "result_file", metavar="FILE", multiple=True, help="result.json of an earlier raybench "
                 "run, train or memory, repeatable: an all_reduce gives bandwidth and latency (other options win); "
                 "a train or memory of this very setting takes the estimate's place, a train of another corrects it."),
    MEASURED_OPTION,
    click.option("--latency-us", type=float, help="A hop between nodes, microseconds.  [default: 12]"),
    click.option("--batch-size", type=int, default=1, show_default=True, help="Samples a rank and micro-batch."),
    *WORKLOAD_OPTIONS,
    click.option("--gradient-accumulation-steps", "--accumulation", "accumulation", type=int, default=1,
                 show_default=True, help="Micro-batches a step."),
    click.option("--reduce-each/--reduce-last", default=None,
                 help="FSDP with --gradient-accumulation-steps: reduce gradients in "
                 "each micro-batch, as most people do, or add them up whole and reduce them in the last, as raybench "
                 "train does unless it is told --reduce-each: less is sent, more is held.  "
                 "[default: the program's, else each]"),
    click.option("--parameter-dtype", type=click.Choice(["fp32", "bf16", "fp16"]), help="Type in which parameters are "
                 "stored and updated: of the master weights.  [default: the program's, else fp32]"),
    click.option("--reduce-dtype", type=click.Choice(["fp32", "bf16", "fp16"]), help="Type in which FSDP, and "
                 "Megatron-LM of a model that is cut, reduce gradients.  [default: the program's, else fp32]"),
    click.option("--optimizer", default="adamw", show_default=True, metavar="sgd|momentum|adam|adamw|...",
                 help="For the memory of its state and the time of the update; adamw-8bit, paged-adamw, "
                 "paged-adamw-8bit too."),
    click.option("--optimizer-dtype", type=click.Choice(["fp32", "bf16", "fp16"]), help="Type of the optimizer's "
                 "moments (DeepSeek-V3's: bf16).  [default: the parameters']"),
    click.option("--gradient-dtype", type=click.Choice(["fp32", "bf16", "fp16"]), help="Type in which ZeRO-1 and 2 add "
                 "gradients up, such as DeepSpeed's grad_accum_dtype.  [default: of DeepSpeed, that of the "
                 "computation; of a model that is cut, --reduce-dtype's]"),
    click.option("--use-precision-aware-optimizer/--no-use-precision-aware-optimizer", default=None, help="Megatron-LM "
                 "shards, of fp32 weights, the 16 bits that those in bf16 lack, with the optimizer state "
                 "(zero1), as Transformer Engine's FusedAdam does (fsdp); moments are of --optimizer-dtype.  "
                 "[default: the program's, else no]"),
    click.option("--cpu-offload", type=click.Choice(["none", "optimizer", "all"]), default="none", show_default=True,
                 help="Keep the optimizer state in the CPU's memory, or (fsdp, ZeRO-3) all that is sharded."),
    click.option("--activation-checkpointing/--no-activation-checkpointing", default=None,
                 help="Keep only each block's input and compute it again.  [default: no; what fits only with it is "
                 "open]"),
    click.option("--selective-checkpointing/--no-selective-checkpointing", default=False,
                 help="Compute all but attention and every second matrix "
                 "product again (torchtitan)."),
    click.option("--recompute-modules", metavar="NAME,...", help="Compute these modules of each block again, as "
                 "Megatron-LM's --recompute-granularity selective does: core_attn, layernorm, mla_up_proj, mlp, moe, "
                 "moe_act, shared_experts."),
    click.option("--activation-func-fp8-input-store/--no-activation-func-fp8-input-store", default=None, help="SwiGLU "
                 "keeps what it reads in 8 bits (Megatron-LM's; FP8_ACT of MLPerf's recipes).  [default: unknown with "
                 "--dtype fp8, the least counts with it; else no]"),
    click.option("--masked-attention/--no-masked-attention", default=None, help="Attention that is given a mask, as "
                 "transformers' sdpa is with padded samples (not with packing or flash_attention_2): all scores, by a "
                 "slower kernel (or by cuDNN's with --native-attention, on Hopper and later).  [default: unknown where "
                 "it may be, the bounds hold either way]"),
    click.option("--dropout/--no-dropout", default=None, help="Dropout of what attention and the MLP give (or its "
                 "rate, --dropout 0.1); its masks are kept. Megatron-LM's default is on.  [default: unknown with such "
                 "a program, both are counted with; else as the model's config.json has it; a preset drops nothing]"),
    click.option("--bucket-view/--no-bucket-view", default=None, help="DDP with gradient_as_bucket_view, as raybench "
                 "trains, or with buckets as a copy of the gradients.  [default: the program's, else on]"),
    *KERNEL_OPTIONS,
    click.option("--compile/--no-compile", default=None, help="Whether torch.compile fuses what is not a matrix "
                 "product.  [default: unknown, the bounds hold either way]"),
    click.option("--cuda-graphs/--no-cuda-graphs", default=None, help="Kernel launches of layers are captured as CUDA "
                 "graphs (Megatron-LM's --cuda-graph-impl, MLPerf); counts for the time.  [default: only of mixtures "
                 "of experts with fused kernels on GB200 and GB300]"),
    click.option("--lora-rank", type=int, default=0, help="Train LoRA adapters of this rank; the base is frozen."),
    click.option("--lora-targets", metavar="NAME,...", help="q_proj, v_proj, ...  [default: every linear layer]"),
    click.option("--lora-dropout/--no-lora-dropout", default=None, help="Dropout of adapters' inputs; its masks "
                 "are kept. On by default in TRL and ms-swift, not in peft.  [default: the program's, "
                 "else unknown, both are counted with]"),
    click.option("--autocast/--no-autocast", default=None, help="With --lora-rank: autocast or mixed precision "
                 "casts; or, in a loop of one's own over a model in 16 bits, each adapter in fp32 its own input, which "
                 "is kept (peft), and computes without TF32.  [default: the program's, else on]"),
    click.option("--qlora/--no-qlora", default=False, help="The frozen base in 4 bits; needs --lora-rank."),
    click.option("--base-dtype", type=click.Choice(["fp32", "bf16", "fp16", "nf4", "int8", "fp8"]), help="Of the "
                 "frozen base, with --lora-rank: of all of it, as transformers loads it in fp32 unless it is told a "
                 "type, or packed (nf4, int8, fp8) of its linear layers.  [default: the program's, else that of the "
                 "computation; nf4 with --qlora]"),
    *PRICE_OPTIONS,
    click.option("--prices", metavar="FILE", help="CSV with name,usd_per_node_hour,date,source in place of the list "
                 "prices."),
    click.option("--epoch-samples", type=int, metavar="N", help="Samples of an epoch, for its time and cost."),
    click.option("--mean-tokens", type=int, metavar="N", help="Mean tokens of a sample: packed samples fill "
                 "--sequence-length, those that are padded to it (--masked-attention) waste the rest."),
    click.option("--full", is_flag=True, help="On the terminal: every formula and source, not one screen."),
    click.option("--json", "as_json", is_flag=True, help="JSON (raybench.estimate/1) instead of text."),
]  # fmt: skip


@click.command(cls=PlanningCommand, epilog=EXAMPLES)
@with_options(_OPTIONS)
def command(as_json: bool, full: bool, measured: tuple[str, ...], **options: Any) -> None:
    """Estimate communication, memory, step time, throughput and cost of a training run, without running it.

    Bounds, not promises: the fastest step hides all communication that can be hidden, the slowest hides none. Exits
    with 1 where the model does not fit into the GPU's memory, and 3 where that hangs on kernels and loss.
    """
    from raybench.services.estimating.estimate import estimate
    from raybench.services.estimating.options import EstimateOptions

    finished = estimate(EstimateOptions(**options, measured=measured_runs(measured, command)))
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(finished.report.to_json(), indent=2))
        else:
            from raybench.reports.terminal.report import print_document

            print_document(finished.report, sys.stdout, full=full)
    sys.exit(finished.exit_code)
