"""What a run is asked for by its command's options and a file."""

from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.services.run_config import training_config, workload_config


def test_options_of_a_workload_are_told_from_those_of_every_run(tmp_path: Path) -> None:
    file = tmp_path / "run.yml"
    file.write_text("nodes: 4\nmemory:\n  model: tiny\n  dtype: bf16\n")
    config = workload_config("memory", str(file), {"nodes": 2, "batch_sizes": (1, 2)})
    assert (config.suite, config.nodes) == ("memory", 2)
    options = config.options["memory"]
    assert (options.model, options.dtype, options.batch_sizes) == ("tiny", "bfloat16", (1, 2))


def test_the_strategies_are_the_commands_then_the_files_then_ddp(tmp_path: Path) -> None:
    file = tmp_path / "run.yml"
    file.write_text("suite: fsdp,lora\n")
    assert training_config(str(file), {}, "ddp, qlora").suite == "ddp,qlora"
    assert training_config(str(file), {}).suite == "fsdp,lora"
    assert training_config(None, {"steps": 3}).suite == "ddp"
    file.write_text("suite: all_reduce\n")
    for arguments in ((None, {}, "zero"), (str(file), {}, None)):
        with pytest.raises(UsageError, match="there is no strategy"):
            training_config(*arguments)
