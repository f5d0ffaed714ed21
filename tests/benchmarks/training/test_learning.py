"""Real gloo ranks learn: loss and accuracy of held-out samples, the same however many ranks share the batch."""

import dataclasses
import json
import math
import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from raybench.benchmarks.training import benchmark, reference, step, strategies, usage  # noqa: F401 - imported once, before the forks
from raybench.benchmarks.training.benchmark import _kept
from raybench.benchmarks.training.clock import HostClock
from raybench.benchmarks.training.data.corpus import corpus_text
from raybench.benchmarks.training.data.enough import check_samples
from raybench.benchmarks.training.data.feed import Feed
from raybench.benchmarks.training.data.files import check_data, read_text
from raybench.benchmarks.training.data.samples import samples_of
from raybench.benchmarks.training.data.tokens import check_tokenizer
from raybench.benchmarks.training.models.shapes import check_model
from raybench.benchmarks.training.options import TrainingOptions
from raybench.benchmarks.training.schedule import rate_at
from raybench.documents.run.training.point import TrainingPoint
from raybench.errors import UsageError
from tests.benchmarks.training.test_training import trained

SPIRAL: dict[str, Any] = {
    "model": "mlp", "data": "spiral", "sequence_length": None, "hidden_dims": (64, 32), "learning_rate": 1e-2,
    "warmup_steps": 2, "overlap_steps": 0,
}  # fmt: skip
TEXT: dict[str, Any] = {"data": "text", "sequence_length": 32, "learning_rate": 3e-3, "warmup_steps": 0}
GLOBAL_BATCH = 64


def spiral(ranks: int, name: str = "ddp", **options: Any) -> TrainingPoint:
    return trained(name, ranks, **{**SPIRAL, "batch_size": GLOBAL_BATCH // ranks, "steps": 150, **options})


def test_a_network_learns_the_spiral() -> None:
    point = spiral(1, lr_schedule="cosine", lr_warmup_steps=10, clip_grad_norm=1.0)
    first, last = point.validation[0], point.validation[-1]
    assert (first.step, last.step, len(point.validation)) == (0, 150, 11)
    assert first.loss == pytest.approx(math.log(3), abs=0.5)
    assert last.loss is not None
    assert last.loss < 0.35
    assert last.accuracy > 0.9
    assert last.epoch == pytest.approx(152 * GLOBAL_BATCH / point.facts["training_samples"])
    assert point.verified is True, point.check


@pytest.mark.parametrize(
    ("ranks", "name"),
    [
        (2, "fsdp"),
        pytest.param(2, "ddp", marks=pytest.mark.long),
        pytest.param(4, "ddp", marks=pytest.mark.long),
        pytest.param(4, "fsdp", marks=pytest.mark.long),
    ],
)
def test_the_same_seed_and_global_batch_reach_the_same_loss(ranks: int, name: str) -> None:
    """Sums in another order are rounded otherwise, and 20 steps carry that on; other data would be off by percents."""
    options: dict[str, Any] = {"steps": 20, "lr_schedule": "cosine", "clip_grad_norm": 0.5}
    alone, shared = spiral(1, **options), spiral(ranks, name, **options)
    assert shared.losses == pytest.approx(alone.losses, rel=2e-3)
    assert [one.loss for one in shared.validation] == pytest.approx([one.loss for one in alone.validation], rel=2e-3)
    assert [one.samples for one in shared.validation] == [one.samples for one in alone.validation]
    assert shared.verified is True, shared.check


def other_order(rank: int) -> None:
    real = Feed.batch
    Feed.batch = lambda self, number: real(self, number + 1 if rank else number)


@pytest.mark.long
def test_ranks_that_take_other_samples_do_not_reach_it() -> None:
    options: dict[str, Any] = {"steps": 20}
    alone = spiral(1, **options)
    wrong = trained("ddp", 2, other_order, **{**SPIRAL, "batch_size": GLOBAL_BATCH // 2, **options})
    assert wrong.losses != pytest.approx(alone.losses, rel=2e-3)


def local_clipping(rank: int) -> None:
    """Each rank clips by the norm of its own part."""
    from raybench.benchmarks.training import update

    update.gradient_norm = lambda parameters: torch.stack(
        [(one.grad.to_local() if hasattr(one.grad, "to_local") else one.grad).norm() for one in parameters]
    ).norm()


@pytest.mark.long
def test_gradients_that_shards_clip_by_their_own_norm_are_found() -> None:
    assert spiral(2, "fsdp", sabotage=local_clipping, steps=2, clip_grad_norm=0.05).verified is False


def may_have_children(rank: int) -> None:
    """As the ranks of a run may; those of the tests are daemons, which may not."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


def test_a_transformer_learns_bytes_with_workers(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    lines = corpus_text(40_000).decode().splitlines()
    path.write_text("\n".join(json.dumps({"text": line}) for line in lines), encoding="utf-8")
    options = {**TEXT, "data": str(path), "batch_size": 16, "steps": 30, "data_workers": 1}
    point = trained("ddp", 1, may_have_children, **options)
    first, last = point.validation[0], point.validation[-1]
    assert first.loss == pytest.approx(math.log(512), rel=0.05)
    assert last.loss is not None
    assert last.loss < 3.5
    assert last.accuracy > 5 * first.accuracy
    assert {"data", "copy"} <= set(point.phases)
    assert sum(point.phases.values()) == pytest.approx(sum(point.rank_seconds))


def test_an_evaluation_is_in_no_step() -> None:
    clock = HostClock()
    clock.mark("data")
    clock.end_step()
    before = clock.read()[0][0]
    with clock.pausing():
        time.sleep(1.0)
    clock.mark("data")
    clock.end_step()
    stamps = clock.read()[0]
    assert stamps[1] - before < 0.5  # of a second's pause: a busy machine may take the process away beside it


@pytest.mark.parametrize(("ranks", "size"), [(1, 24), (2, 12), (4, 6), (3, 8)])
def test_ranks_share_the_samples_of_a_step(ranks: int, size: int) -> None:
    options = TrainingOptions(model="mlp", data="spiral", batch_size=size)
    whole = samples_of(dataclasses.replace(options, batch_size=24), 1, 1)
    shared = samples_of(options, ranks, 1)
    assert whole is not None
    assert shared is not None
    for number in (0, 1, 115, 1_000_000):
        found = [index for rank in range(ranks) for index in shared.indices(rank, number, size)]
        assert found == whole.indices(0, number, 24)
        assert max(found) < whole.count
    assert len({index for number in range(115) for index in whole.indices(0, number, 24)}) == 115 * 24
    held = [index for n in range(100) for rank in range(ranks) for index in shared.held_out_indices(rank, n, size)]
    assert held == list(range(whole.count, whole.count + whole.held_out))


def test_rates_rise_and_fall() -> None:
    options = TrainingOptions(learning_rate=1.0, lr_schedule="cosine", lr_warmup_steps=4, warmup_steps=4, steps=10)
    rates = [rate_at(options, position) for position in range(16)]
    assert rates[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert rates[9] == pytest.approx(0.5)
    assert rates[14:] == pytest.approx([0.0, 0.0])
    line = dataclasses.replace(options, lr_schedule="linear")
    assert rate_at(line, 9) == pytest.approx(0.5)
    assert {rate_at(TrainingOptions(learning_rate=0.1), position) for position in range(9)} == {0.1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"data": "spiral"}, "--data spiral is of --model mlp"),
        ({"data": "text", "model": "mlp"}, "is text, and --model is mlp"),
        ({"data": "text", "vocabulary": 100}, "--vocabulary must be 256 or more"),
        ({"data": " "}, "--data is empty"),
        ({"data_workers": 2}, "--data-workers is of data that can be learned"),
        ({"data": "text", "validation_share": 0.9}, "--validation-share is 0.9"),
        ({"data": "text", "validation_share": math.nan}, "--validation-share is nan"),
        ({"clip_grad_norm": 0.0}, "--clip-grad-norm is 0.0"),
        ({"lr_schedule": "step"}, "step"),
    ],
)
def test_options_that_do_not_fit_are_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_model(TrainingOptions(**options))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", "[1]\n", "line 1 has no text"),
        ("a.jsonl", "{", "line 1 is not JSON"),
        ("a.jsonl", "[" * 100_000, "line 1 is not JSON"),
        ("a.bin", "x", "no file that can be read"),
        ("a.parquet", "PAR1", "pyarrow|not a parquet file"),
        ("a.arrow", "ARROW", "pyarrow|not an Arrow file"),
        ("a.txt", "", "has no text"),
        ("none.txt", None, "cannot be read on .* every node needs that file"),
    ],
)
def test_data_that_cannot_be_read_are_said(tmp_path: Path, name: str, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    for read in (check_data, lambda name: read_text(name)[0] or check_data(name)):
        with pytest.raises(UsageError, match=said):
            read(str(tmp_path / name))


def test_few_data_are_said_with_what_a_step_takes(tmp_path: Path) -> None:
    (tmp_path / "little.txt").write_text("a few words", encoding="utf-8")
    with pytest.raises(UsageError, match="has 0 samples to train on and 0 to validate with, and a step takes 8"):
        samples_of(TrainingOptions(data=str(tmp_path)), 1, 32)


@pytest.mark.parametrize(
    ("name", "content", "ranks", "said"),
    [
        ("short.txt", "abc", 1, "has 0 samples to train on"),
        ("cut.jsonl", '{"text": "' + "word " * 1000 + '"}\n{"text": "wo', 1, "line 2 is not JSON"),
        ("few.txt", "word " * 80, 2, "has 11 samples to train on and 1 to validate with, and a step takes 16"),
        ("few.txt", "word " * 80, 1, None),
        ("whole.jsonl", '{"text": "' + "word " * 1000 + '"}\n', 2, None),
        ("spiral", None, 1000, "a step takes 8000"),
        ("text", None, 2, None),
    ],
)
def test_data_are_checked_before_a_run_as_its_ranks_read_them(
    tmp_path: Path, name: str, content: str | None, ranks: int, said: str | None
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    data = name if content is None else str(tmp_path / name)
    options = TrainingOptions(data=data, model="mlp" if data == "spiral" else "tiny", sequence_length=32)
    if said is None:
        check_samples(options, ranks)
        return
    with pytest.raises(UsageError, match=said):
        check_samples(options, ranks)


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("second", encoding="utf-8")
    (tmp_path / "a.jsonl").write_text('{"content": "first"}\n\n', encoding="utf-8")
    (tmp_path / "c.png").write_bytes(b"\x89")
    assert read_text(str(tmp_path)) == (b"first\nsecond", False)


def word_level(path: Path, words: int) -> Path:
    tokenizers = pytest.importorskip("tokenizers")
    known = {f"w{number}": number for number in range(words)} | {"?": words}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="?"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(path / "tokenizer.json"))
    return path


def test_text_becomes_tokens_of_a_tokenizer(tmp_path: Path) -> None:
    folder = word_level(tmp_path, 40)
    text = "\n".join(" ".join(f"w{(line * 7 + word) % 40}" for word in range(16)) for line in range(400))
    (tmp_path / "a.txt").write_text(text + " unknown")
    for name in (folder, folder / "tokenizer.json"):
        options = TrainingOptions(data=str(tmp_path / "a.txt"), tokenizer=str(name), vocabulary=41)
        check_model(options)  # fewer tokens than bytes have values
        samples = samples_of(options, 2, 16, 41)
        assert samples is not None
        assert (samples.count, samples.held_out) == (360, 40)
        assert samples.take([3])[0].tolist() == [[(21 + word) % 40 for word in range(16)]]
    with pytest.raises(UsageError, match=r"gives the token 40, and the model has 40; .*--vocabulary 41$"):
        samples_of(options, 2, 16, 40)
    check_tokenizer(str(folder), text.encode(), 40)
    with pytest.raises(UsageError, match="gives the token 39, and the model has 39"):
        check_tokenizer(str(folder), text.encode(), 39)  # before anything is started


@pytest.mark.parametrize(
    ("content", "said"), [("{}", "is not a tokenizer.json"), (None, "cannot be read on .* every node needs it")]
)
def test_a_tokenizer_that_cannot_be_used_is_said(tmp_path: Path, content: str | None, said: str) -> None:
    pytest.importorskip("tokenizers")
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(UsageError, match=said):
        check_tokenizer(str(tmp_path), b"some text", 256)
    with pytest.raises(UsageError, match="--tokenizer is of text"):
        TrainingOptions(tokenizer=str(tmp_path))


def test_a_data_set_on_disk_is_read_alike_in_every_form(tmp_path: Path) -> None:
    """As ``datasets`` saves one: Arrow streams beside files that describe them, parquet, JSON lines."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = ["a small text", "", "of several"]
    table = pyarrow.table({"id": [1, 2, 3], "text": texts})
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "state.json").write_text("{\n}")
    with (
        pyarrow.OSFile(str(saved / "data-00000.arrow"), "wb") as file,
        pyarrow.ipc.new_stream(file, table.schema) as out,
    ):
        out.write_table(table)
    with pyarrow.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    parquet.write_table(table, tmp_path / "a.parquet")
    for name in ("saved", "a.arrow", "a.parquet"):
        assert read_text(str(tmp_path / name)) == (b"a small text\nof several", False)
    parquet.write_table(table.rename_columns(["id", "body"]), tmp_path / "b.parquet")
    with pytest.raises(UsageError, match="no column 'text' or 'content'"):
        read_text(str(tmp_path / "b.parquet"))


def test_losses_of_a_cpu_are_kept_apart_from_what_a_step_computes() -> None:
    """Beside its largest blocks each would hold up the C library's heap: a process grew by 4 MiB a step."""
    kept = torch.empty(2)
    losses = [_kept(torch.tensor(value), place, kept) for place, value in enumerate((1.5, math.nan))]
    assert [one.item() for one in losses] == pytest.approx([1.5, math.nan], nan_ok=True)
    assert {one.untyped_storage().data_ptr() for one in losses} == {kept.untyped_storage().data_ptr()}
    loss = torch.tensor(2.0)
    assert _kept(loss, 0, None) is loss  # a GPU's is not waited for, nor copied
