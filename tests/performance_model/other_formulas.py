"""What other tools' published formulas say of the memory of one rank, to hold the estimate against. Bytes.

Written from their documentation and sources, read in November 2026; each says what it leaves out.
"""

from raybench.performance_model.parallel.sharding import shard_count
from raybench.performance_model.request.request import EstimateRequest


def eleuther(request: EstimateRequest) -> float:
    """EleutherAI's calculator (github.com/EleutherAI/cookbook, calc/calc_transformer_mem.py) at its defaults.

    2 bytes a parameter, 4 a gradient, 12 an element of Adam's state, divided as ZeRO does (3 for FSDP, 2 where the
    parameters stay whole, 0 for DDP); buffers of 5e8 and 1e9 elements; activations of 34 bytes an element of the hidden
    size, token and layer, and 5 a score of the attention unless they are computed again. It knows no LoRA.
    """
    model, setup, ranks = request.model, request.setup, shard_count(request.setup, request.layout)
    parameters = float(model.parameters)
    whole = setup.strategy == "fsdp-grad-op"
    weights = 2 * parameters / (1 if whole else ranks)
    buffers = 2 * (5e8 + (0 if whole else 1e9)) if ranks > 1 else 0.0
    scores = 0.0 if setup.checkpointing else 5.0 * model.heads * setup.sequence_length / model.hidden
    activations = setup.tokens * model.hidden * model.layers * (34 + scores)
    return weights + (4 + 12) * parameters / ranks + buffers + activations


def accelerate(request: EstimateRequest) -> float:
    """accelerate estimate-memory: four times the model in fp32, or in the type that it is trained in.

    huggingface.co/docs/accelerate/usage_guides/model_size_estimator: one for the model, one for gradients, two for
    Adam. Neither activations nor shards nor LoRA.
    """
    return 4.0 * request.setup.parameter_bytes * request.model.parameters


def deepspeed(request: EstimateRequest) -> float:
    """DeepSpeed's estimators of model states (deepspeed.readthedocs.io/en/latest/memory.html), without offload.

    ZeRO-3: 18 bytes a parameter and rank, and 4 of the largest layer; ZeRO-2: 4 a parameter, and 16 a parameter and
    rank. DDP has ZeRO-2's figures of one rank. No activations, no LoRA.
    """
    model, ranks = request.model, shard_count(request.setup, request.layout)
    if ranks == 1 or request.setup.strategy == "fsdp-grad-op":
        return (4 + 16 / ranks) * model.parameters
    return 18.0 * model.parameters / ranks + 4.0 * model.token_table_parameters


FORMULAS = {"EleutherAI": eleuther, "accelerate": accelerate, "DeepSpeed": deepspeed}
