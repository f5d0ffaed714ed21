"""Logs that end with steps of a training show that the job works, and what looks like it does not."""

import pytest

from diagnostics.findings import Diagnosis
from diagnostics.parsers.steps import is_step
from tests.diagnostics.threads import diagnose

# of public threads, each of another framework
STEPS = (
    " iteration       43/     100 | elapsed time per iteration (ms): 5444.9 | lm loss: 1.825991E+00 |",
    "{'loss': 0.4117, 'grad_norm': 1.2, 'learning_rate': 2.1e-06, 'epoch': 0.9}",
    "2021-09-30 17:34:45 WARNING [train.py:546] (0/7) Epoch 1, batch 50, batch avg loss 0.6246, batch size: 10",
    "10/17/2025 16:31:56 [INFO|DP=0|PP=0|TP=0]: iteration: 327281 / 378950 | tokens_per_sec: 22.8K | lm_loss: 2.38",
    "2018-04-13 INFO DistriOptimizer$:392 - Trained 3072 records in 1.4 seconds. Throughput is 2091.89 records/second.",
    "100\timages/sec: 290.1 +/- 0.2 (jitter = 1.3)\t7.918",
    "[0]<stdout>:Iter #7: 124.1 img/sec per GPU",
    "Epoch 0:   3%|2  | 565/20101 [2:12:19<76:15:08, 14.05s/it, v_num=0, reduced_train_loss=3.910, global_step=564.0]",
    "INFO 05-12 [loggers.py:116] Engine 000: Avg generation throughput: 35.4 tokens/s, Running: 1 reqs",
    "[2025-05-12 TP0] Decode batch. #running-req: 1, #token: 100, gen throughput (token/s): 45.21, #queue-req: 0",
    "0: 2023-11-29 04:19:54 I [train.py:122] Batch 1 Loss: 11.620493, Speed: 10.72 samples/sec, lr: 0.000013",
    "INFO:tensorflow:global_step/sec: 13.62",
    "Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.303904",
    "[2023-07-25 21:03:17,269] [INFO] epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=7.86, MemAll=1GB",
    "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.48609168106144, MemAllocated=0.26GB",
    "[rank 7] Dispatch + combine bandwidth: 99.09 GB/s, avg_t=222.52 us, min_t=217.31 us, max_t=228.74 us",
    "0: [rank0]:2024-11-27 14:29:40,378 - root - INFO - step: 10  memory: 26.47GiB(33.47%)  wps: 1,786  mfu: 10.46%",
    "[default0]: step: 12  loss: 10.8719  memory: 31.1GiB(32.71%)  tps: 8,107  mfu: 41.32%",
)
NO_STEPS = (
    "Loading checkpoint shards: 100%|##########| 5/5 [00:00<00:00, 27.06it/s]",
    "Map (num_proc=8):  12%|#2        | 1000/8000 [00:02<00:15, 455.2 examples/s]",
    "Generating train split: 1000 examples [00:00, 5012.31 examples/s]",
    "Capturing CUDA graph shapes: 100%|##########| 35/35 [00:10<00:00,  3.29it/s]",
    "INFO 05-12 [loggers.py:116] Engine 000: Avg prompt throughput: 0.0 tokens/s, Running: 0 reqs",
    "loss: nan, step 12",
    "expected bandwidth: 400 GB/s",
    "SamplesPerSec=0.0",
    "ModelConfig(loss=0.1, dropout=0.0)",
    "model-00001-of-00005.safetensors:  40%|####  | 1.9G/4.9G [00:10<00:15, 198MB/s]",
    "n1:1:2 [0] NCCL INFO 2 coll channels, 8 p2p channels, loss 0.1 step 3",
)
_TWO = "step 11/100 loss: 2.31 12.1 samples/s\nstep 12/100 loss: 2.30 12.2 samples/s\n"
_NCCL = "n1:41:41 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>\n"


@pytest.mark.parametrize("line", STEPS)
def test_a_line_of_a_step_is_one(line: str) -> None:
    assert is_step(line)


@pytest.mark.parametrize("line", NO_STEPS)
def test_a_line_of_what_comes_before_the_work_is_none(line: str) -> None:
    assert not is_step(line)


@pytest.mark.parametrize(("second", "verdict"), [("12/100", "unknown"), ("13/100", "ok")])
def test_a_bar_of_progress_that_is_drawn_anew_at_one_place_is_no_work(second: str, verdict: str) -> None:
    bar = " 12%|#  | {} [00:{}<01:10, 1.2it/s, loss=2.3]\n"
    assert _verdict(_NCCL + bar.format("12/100", 10) + bar.format(second, 11)) == verdict


def _verdict(text: str) -> str:
    diagnosis: Diagnosis = diagnose(text)
    return diagnosis.verdict


def test_steps_at_the_end_show_that_the_job_works() -> None:
    assert _verdict(_NCCL) == "unknown"
    assert _verdict(_NCCL + _TWO) == "ok"
    assert _verdict(_TWO) == "ok"
    assert "step 12/100" in diagnose(_TWO).explanation


@pytest.mark.parametrize(
    "behind",
    [
        "the trainer gave an error that nobody knows\n",
        "waiting for node 3, which hangs\n",
        _NCCL,  # another start
        "step 13/100 loss: nan 12.1 samples/s\n",
        "Traceback (most recent call last):\n",
    ],
)
def test_steps_before_something_else_show_nothing(behind: str) -> None:
    assert _verdict(_NCCL + _TWO + behind) != "ok"


def test_one_step_or_the_same_one_twice_shows_nothing() -> None:
    one = _TWO.splitlines()[0] + "\n"
    assert {_verdict(_NCCL + one), _verdict(_NCCL + one + one)} == {"unknown"}


def test_steps_do_not_hide_a_failure_or_an_open_question() -> None:
    killed = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
    assert _verdict(killed + _TWO) == "critical"
    over_tcp = "n1:41:41 [0] NCCL INFO Using network Socket\n"
    assert _verdict(over_tcp + _TWO) == "unknown"  # whether between nodes is open


def test_losses_alone_say_nothing_of_a_log_without_nccl() -> None:
    losses = "epoch 1 loss 0.3\nepoch 2 loss 0.2\n"
    assert (_verdict(losses), _verdict(_NCCL + losses)) == ("unknown", "ok")


def test_the_end_of_a_log_counts_however_long_it_is() -> None:
    assert _verdict(_NCCL + _TWO * 2000) == "ok"
    assert _verdict(_NCCL + _TWO + "some other line\n" * 2000) == "unknown"
