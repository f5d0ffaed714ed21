"""``raybench train`` and its neighbours as a user calls them."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from raybench.benchmarks.registry import parameters_of
from raybench.cli import train as train_module
from raybench.cli.checkpoint import command as checkpoint
from raybench.cli.memory import command as memory
from raybench.cli.train import command as train
from raybench.config import RunConfig, load_config
from raybench.errors import UsageError
from tests.benchmarks.training.test_parts import safetensors
from tests.command import started


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (train, ["--strategy", "zero"], "there is no strategy 'zero'"),
        (train, ["--model", "nonsense"], "there is no model 'nonsense'"),
        (train, ["--dtype", "int4"], "--dtype 'int4'"),
        (train, ["--seed", str(2**64)], "--seed is 18446744073709551616; it must be from 0 to 10000000"),
        (train, ["--weights", " "], "--weights is empty"),
        (memory, ["--batch-sizes", "1;2"], "--batch-sizes '1;2'"),
        (memory, ["--limit", "much"], "not a size"),
        (checkpoint, ["--to", "ftp://x/y"], "not a place for checkpoints"),
        (checkpoint, ["--modes", "later"], "--modes 'later'"),
        (checkpoint, ["--inspect", "nope"], "--inspect nope: there is no such folder"),
        (checkpoint, ["--inspect", "file://nope"], "--inspect file://nope: there is no such folder"),
        (checkpoint, ["--inspect", "/usr"], "--inspect /usr: this folder holds no checkpoint"),
        (checkpoint, ["--inspect", ""], "--inspect is empty"),
    ],
)
def test_wrong_use_is_said(command: object, arguments: list[str], message: str) -> None:
    answer = CliRunner().invoke(command, arguments)
    assert isinstance(answer.exception, UsageError)
    assert message in str(answer.exception)


@pytest.mark.parametrize(("suite", "strategies"), [("", "ddp"), ("suite: fsdp,lora\n", "fsdp,lora")])
def test_a_file_may_leave_the_strategy_to_us(
    suite: str, strategies: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[RunConfig] = []
    monkeypatch.setattr(train_module, "measure", lambda config, **_: asked.append(config) or 0)
    file = tmp_path / "run.yml"
    file.write_text(f"{suite}training:\n  steps: 3\n")
    assert CliRunner().invoke(train, ["--config", str(file)]).exit_code == 0
    assert [(config.suite, config.options["training"].steps) for config in asked] == [(strategies, 3)]


def test_options_come_from_a_file_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "run.yml"
    file.write_text("suite: ddp\ntraining:\n  model: small\n  batch-size: 4\n  dtype: bf16\n")
    config = load_config(str(file), {"training": {"batch_size": 2}})
    training = config.options["training"]
    assert (training.model, training.batch_size, training.dtype) == ("small", 2, "bfloat16")
    (spec,) = config.plan("gloo")
    assert parameters_of(spec)["strategy"] == "ddp"
    file.write_text("training:\n  batchsize: 4\n")
    with pytest.raises(UsageError, match="did you mean 'batch_size'"):
        load_config(str(file), {})


def test_weights_that_no_rank_will_find_are_refused_before_a_cluster_is_started(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    safetensors(tmp_path / "other" / "model.safetensors", {"model.norm.weight": torch.ones(64)})
    (tmp_path / "file").write_text("")
    for name, words in (
        ("nowhere", "(No such file or directory)"),
        ("file", "(Not a directory)"),
        ("empty", "empty has no *.safetensors file on "),
        ("other", "other lacks 20 tensors of the model, such as model.embed_tokens.weight"),
    ):
        with started("train", "--address", "local", "--weights", str(tmp_path / name), forked=True) as command:
            assert command.finish(60) == 2, command.errors
            (said,) = command.errors.splitlines()
            assert words in said
            assert (command.out, command.run_folders, command.left_over()) == ("", [], {})
            assert command.matching("gcs_server") == []


def test_lines_for_nsight_systems_have_what_was_typed_and_run_nothing() -> None:
    typed = ["--model", "gpt2", "--nodes", "2", "--gpus-per-node", "8", "--profile", "--no-verify", "--env", "A=1"]
    answer = CliRunner().invoke(train, [*typed, "--nsys-command"])
    assert answer.exit_code == 0
    names = [line for line in answer.output.splitlines() if line.startswith("# ")]
    assert names == ["# torchrun", "# srun", "# mpirun"]
    for line in answer.output.splitlines()[1::2]:
        words = line.split(" launch rank -- ")[1].split()
        assert {"gpt2", "--no-verify", "A=1", "--overlap-steps"} <= set(words)
        assert not {"--nodes", "--profile", "--nsys-command"} & set(words)
    assert CliRunner().invoke(train, ["--model", "no-such-model", "--nsys-command"]).exit_code != 0
