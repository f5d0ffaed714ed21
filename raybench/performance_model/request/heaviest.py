"""What takes most memory, of what people do where nobody says."""

from dataclasses import replace

from raybench.performance_model.setup.training_setup import TrainingSetup


def heaviest(setup: TrainingSetup, *, kernels_known: bool, loss_known: bool) -> TrainingSetup:
    """The setup with what takes most memory of what people do, wherever it is not known.

    Adapters are mostly trained with transformers and peft: its loss, and a 4-bit base prepared as peft does. Scores
    that are stored are mostly transformers' too, or of a program that autocast computes the softmax of in fp32.
    """
    if not loss_known and setup.lora_rank:
        setup = replace(setup, loss="transformers")
    # peft leaves what GPTQ has not packed in 16 bits; FSDP lays a block's weights side by side, in one type only
    is_fsdp = setup.strategy.startswith("fsdp")
    setup = replace(setup, loss_open=not loss_known)
    setup = replace(setup, on_streams=setup.strategy == "zero3" or (setup.is_sharded and not kernels_known))
    casts_up = setup.quantized and setup.packing != "gptq" and not is_fsdp and setup.autocast
    by_autocast = setup.has_autocast and setup.kernels == "plain" and not loss_known
    theirs = setup.loss.startswith("transformers") or by_autocast
    stores_wide = not setup.flash_attention and (not kernels_known or theirs)
    adapts = is_fsdp and setup.lora_rank > 0 and setup.checkpointing  # as transformers and peft do
    holds = setup.holds_inputs or (adapts and (not kernels_known or setup.loss == "transformers"))
    setup = replace(setup, wide_scores=stores_wide, holds_inputs=holds)
    # Liger has both; with adapters other kernels have its loss alone (fms-acceleration)
    is_said = kernels_known and loss_known and not setup.lora_rank and not setup.compiled
    by_liger = is_said and setup.kernels == "fused" and setup.loss == "chunked"
    setup = replace(setup, keeps_least=setup.keeps_least or by_liger)
    return setup if kernels_known else replace(setup, upcast=casts_up)
