"""Settings: defaults, then the file, then the options; and every wrong one refused with what would be right."""

from pathlib import Path
from typing import Any

import pytest

from raybench.config import RunConfig, load_config
from raybench.errors import UsageError


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "run.yml"
    path.write_text(text)
    return str(path)


def test_defaults_are_a_run() -> None:
    config = load_config(None, {})
    assert config == RunConfig()
    assert {spec.name for spec in config.plan("gloo")} >= {"all_reduce", "p2p_matrix"}


def test_options_win_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, "nodes: 4\nwarmup: 9\nout-put: x\n".replace("out-put: x", "output-dir: there"))
    config = load_config(path, {"nodes": 2})
    assert (config.nodes, config.warmup, config.output_dir, config.blocks) == (2, 9, "there", 5)


def test_dashes_and_underscores_are_both_read(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, "gpus-per-node: 3\nlog_limit: 1M\n"), {}).gpus_per_node == 3


def test_a_list_of_variables_is_read(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "env: [NCCL_ALGO=Ring, A_B=]\n"), {})
    assert config.variables() == {"NCCL_ALGO": "Ring", "A_B": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node: 4", "unknown key 'node'; did you mean 'nodes'"),
        ("xyzzy: 4", "unknown key 'xyzzy'; there are: nodes, "),
        ("nodes: four", r"Expected `int \| null`, got `str` - at `\$.nodes`"),
        ("nodes: 2.5", "Expected `int"),
        ("verify: 7", "Expected `bool`"),
        ("env: {A: b}", "Expected `array`"),
        ("nodes: 0", "--nodes is 0; it must be at least 1"),
        ("sizes: 8:1:2", "swap the two"),
        ("- 1\n- 2", "must hold 'key: value' lines"),
        ("", "must hold 'key: value' lines"),
        ("nodes: [1", "is not YAML"),
        ("nodes: 1\nsizes: 1M\nnodes: 2", "'nodes' is there twice"),
        ("nodes: !!python/object/apply:os.system [id]", "is not YAML"),
        ("1: 2", "unknown key '1'"),
    ],
)
def test_a_wrong_file_is_refused_and_named(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError, match=message) as caught:
        load_config(path, {})
    assert path in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_config(str(tmp_path / "none.yml"), {})
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_config(str(tmp_path), {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not YAML"):
        load_config(str(tmp_path / "binary"), {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "--nodes is 0"),
        ({"gpus_per_node": -1}, "--gpus-per-node is -1"),
        ({"iters": 0}, "--iters is 0"),
        ({"blocks": 0}, "--blocks is 0"),
        ({"repeats": 0}, "--repeats is 0"),
        ({"warmup": -1}, "--warmup is -1"),
        ({"timeout": 0.5}, "--timeout is 0.5"),
        ({"timeout": float("nan")}, "--timeout is nan"),
        ({"timeout": float("inf")}, "--timeout is inf"),
        ({"timeout": 1e12}, "--timeout is"),
        ({"master_port": 65536}, "ports end at 65535"),
        ({"dtype": "float31"}, "--dtype 'float31' is not known; did you mean 'float32'"),
        ({"dtype": "float32,"}, "--dtype '' is not known"),
        ({"op": "sum,mean"}, "--op 'mean' is not known"),
        ({"placement": "inn"}, "--placement 'inn'"),
        ({"backend": "mpi"}, "--backend 'mpi' is not known; there are: nccl, gloo"),
        ({"suite": "all_reduc"}, "no suite or benchmark 'all_reduc'; did you mean 'all_reduce'"),
        ({"suite": ""}, "no suite or benchmark ''"),
        ({"env": ("NCCL_ALGO",)}, "--env 'NCCL_ALGO' is not NAME=VALUE"),
        ({"env": ("=Ring",)}, "is not NAME=VALUE"),
        ({"env": ("1A=Ring",)}, "is not NAME=VALUE"),
        ({"env": ("A B=1",)}, "is not NAME=VALUE"),
        ({"p2p_size": "many"}, "'many' is not a size"),
        ({"log_limit": "0"}, "at least 1 byte"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_config(None, options)


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": 1}, {"warmup": 0}, {"iters": 1}, {"timeout": 1}, {"master_port": 65535}, {"dtype": "int8,float32"},
        {"op": "min,avg"}, {"placement": "in"}, {"backend": "gloo"}, {"suite": "quick,all_gather"}, {"suite": " p2p"},
        {"env": ("_=1",)}, {"env": ("A=b=c",)}, {"timeout": 86400.0 * 30},
    ],
)  # fmt: skip
def test_a_near_miss_is_accepted(options: dict[str, Any]) -> None:
    config = load_config(None, options)
    assert {name: getattr(config, name) for name in options} == options


@pytest.mark.parametrize(
    ("text", "sizes"), [("8:16:2", "8:16:2"), ("4096", "4096"), ("8:256M:2", "8:256M:2"), ("'1K,2K'", "1K,2K")]
)
def test_sizes_need_no_quotes(tmp_path: Path, text: str, sizes: str) -> None:
    """YAML 1.1 reads 8:16:2 as a number to base 60."""
    config = load_config(written(tmp_path, f"sizes: {text}\ntimeout: 1.5e1\nwarmup: 0\nverify: no\n"), {})
    assert (config.sizes, config.timeout, config.warmup, config.verify) == (sizes, 15.0, 0, False)


def test_a_value_keeps_its_equal_signs() -> None:
    assert RunConfig(env=("A=b=c",)).variables() == {"A": "b=c"}


def test_a_plan_has_each_benchmark_in_each_form_once() -> None:
    plan = RunConfig(suite="quick,all_reduce,broadcast,all_gather", dtype="int8,float32", op="sum,max", root=3).plan(
        "gloo"
    )
    forms = [(spec.name, spec.dtype, spec.reduce_op, spec.root, spec.in_place) for spec in plan]
    assert forms == [
        *(("all_reduce", dtype, op, None, True) for dtype in ("int8", "float32") for op in ("sum", "max")),
        *(("broadcast", dtype, None, 3, True) for dtype in ("int8", "float32")),
        *(("all_gather", dtype, None, None, place) for place in (False, True) for dtype in ("int8", "float32")),
    ]


def test_pairs_have_a_size_of_their_own_and_a_backend_its_sweep() -> None:
    plan = {spec.name: spec for spec in RunConfig(suite="send_recv,p2p_matrix", p2p_size="2M").plan("gloo")}
    assert plan["p2p_matrix"].sizes == (2 * 2**20,)
    assert max(plan["send_recv"].sizes) == 16 * 2**20
    assert max(RunConfig(suite="quick").plan("nccl")[0].sizes) == 8 * 2**30


@pytest.mark.parametrize(("placement", "places"), [("in", [True]), ("out", [False]), ("both", [False, True])])
def test_a_placement_picks_forms_and_falls_back_to_the_only_one(placement: str, places: list[bool]) -> None:
    plan = RunConfig(suite="all_gather,all_reduce", placement=placement).plan("gloo")
    assert [spec.in_place for spec in plan if spec.name == "all_gather"] == places
    assert [spec.in_place for spec in plan if spec.name == "all_reduce"] == [True]


def test_a_wrong_option_of_a_workload_is_named_as_it_is_typed(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_config(None, {"suite": "ddp", "training": {"batch_size": 0}})
    assert str(caught.value) == "--batch-size is 0; it must be from 1 to 10000000"
    path = written(tmp_path, "training: {steps: many}\n")
    with pytest.raises(UsageError, match=r"Expected `int`, got `str` - at `\$.training.steps`"):
        load_config(path, {})
