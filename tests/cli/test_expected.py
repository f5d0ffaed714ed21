"""``raybench expected``: figures with their basis, or why there are none."""

import json

import pytest
from click.testing import CliRunner

from raybench.cli.expected import command
from raybench.errors import UsageError


def test_figures_come_with_their_basis() -> None:
    result = CliRunner().invoke(command, ["--node-type", "p5.48xlarge", "--nodes", "4", "--sizes", "1G:8G:2"])
    assert result.exit_code == 0
    assert "32 x 100 Gbit/s a node, ring over nodes" in result.stdout
    lines = result.stdout.splitlines()
    assert lines[0].startswith("# raybench expected all_reduce: ")
    assert len([line for line in lines if not line.startswith("#")]) == 4


def test_json_has_every_size() -> None:
    result = CliRunner().invoke(command, ["--gpu", "H100", "--no-nvls", "--sizes", "1M,1G", "--json"])
    content = json.loads(result.stdout)
    assert [point["message_bytes"] for point in content["points"]] == [2**20, 2**30]
    assert content["unknown"] is None
    assert content["points"][1]["busbw_gb_per_s"] < 450


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpu", "A10G"], "no published figures of A10G"),
        (["--gpu", "H100", "--nodes", "2"], "NICs"),
        (["--node-type", "g5.12xlarge"], "no published figures of A10G"),
        (["--gpu", "H100", "--nodes", "2", "--nics", "1", "--nic-gbit", "100", "--network", "sockets"], "TCP sockets"),
        (["--node-type", "a3-highgpu-8g", "--nodes", "2"], "kind of network"),
    ],
)
def test_the_unknown_says_why_and_ends_with_3(options: list[str], words: str) -> None:
    result = CliRunner().invoke(command, options)
    assert result.exit_code == 3
    assert words in result.stdout


@pytest.mark.parametrize(
    "options", [[], ["--gpu", "H999"], ["--gpu", "H100", "--nodes", "0"], ["--gpu", "H100", "--nic-gbit", "nan"]]
)
def test_nonsense_is_refused(options: list[str]) -> None:
    assert isinstance(CliRunner().invoke(command, options).exception, UsageError)


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--gpus-per-node", "0"), "--gpus-per-node is 0"), (("--nic-gbit", "0"), "--nic-gbit is 0"),
     (("--nics", "-1"), "--nics is -1"), (("--nic-gbit", "nan"), "--nic-gbit is nan")],
)  # fmt: skip
def test_nothing_is_taken_for_not_given(options: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(command, ["--gpu", "H100", "--nodes", "2", *options])
    assert isinstance(result.exception, UsageError)
    assert words in str(result.exception)
