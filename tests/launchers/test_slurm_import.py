"""Outputs of jobs that ran: ids from their names, raybench's own, nccl-tests' and torchrun's, cut and whole."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from raybench.cli.launching.slurm_jobs import command
from raybench.errors import UsageError
from raybench.launchers.ended_job import EndedJob
from raybench.launchers.slurm.job_output import job_id_of, output_of
from raybench.launchers.slurm.training_output import TrainingOutput
from raybench.services.launching.slurm_import import exit_code_of, import_outputs

# nccl-tests 2.13 and later, and before; as all_reduce_perf prints them.
HEAD = (
    "# Collective test starting: all_reduce_perf\n#  Rank  0 Group  0 Pid  4101 on gpu-a device  0 [0x1b] NVIDIA H200\n"
)
ROWS = (
    "  1048576     262144  float  sum  -1    31.20   33.61   63.02      0    30.9   33.9   63.6      0\n"
    "  1073741824  268435456  float  sum  -1   4181.0  256.81  481.53      0  4175.2  257.2  482.2      0\n"
)
OLD = "           8             2     float     sum     9.66    0.00    0.00  0e+00     9.52    0.00    0.00  4e-07\n"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 272.31 \n#\n"
RAYBENCH = (
    "# VERDICT: OK: 24 points measured and verified\n"
    "# raybench run 20261123-132221-f6ed: 4 nodes, 32 ranks, nccl, 41 s\n"
    "# VERDICT: OK: 24 points measured and verified\n"
)
# torchrun 2.13 where a rank ended by itself, shortened.
TORCHRUN = (
    "E1123 13:01:02.000000 4101 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) "
    "local_rank: 1 (pid: 4105) of binary: /usr/bin/python\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "train.py FAILED\n"
)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("slurm-1417.out", "1417"),
        ("slurm-1417_3.out", "1417_3"),
        ("train.1417.err", "1417"),
        ("nccl-1417-gpu03.log", "1417"),
        ("llama-8b-1417.out", "1417"),  # not the 8 of the model
        ("20261123-1417.out", "1417"),  # a date is none
        ("train-1417-0.out", "1417"),  # of its task
        ("notes.txt", ""),
        ("gpu03.log", ""),
    ],
)
def test_the_id_of_a_job_is_in_the_name_of_its_output(name: str, said: str) -> None:
    assert str(job_id_of(f"/scratch/77/{name}")) == said


@pytest.mark.parametrize("prefix", ["", "0: ", "12: ", "[1,0]<stdout>:"])
def test_tables_of_nccl_tests_are_read_whoever_labels_their_lines(prefix: str) -> None:
    lines = [prefix + line for line in (HEAD + ROWS + END).splitlines()]
    (test,) = output_of(lines).tests
    assert (test.name, test.average_bus_gb_per_second, test.wrong) == ("all_reduce", 272.31, 0)
    assert (test.largest_bytes, test.largest_bus_gb_per_second) == (1073741824, 481.53)


def test_tables_of_old_nccl_tests_and_cut_ones_are_known_as_such() -> None:
    (old,) = output_of((OLD + END).splitlines()).tests
    assert (old.largest_bytes, old.average_bus_gb_per_second) == (8, 272.31)
    (cut,) = output_of((HEAD + ROWS).splitlines()).tests
    assert cut.average_bus_gb_per_second is None
    assert output_of(["1 2 3 4 5 6 7 8 9 10 11 12 13", "# Avg bus bandwidth : 3"]).tests == []


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"slurm-{name.removeprefix('job')}.out").write_text(text)


def test_each_job_has_its_verdict(tmp_path: Path) -> None:
    write(
        tmp_path,
        job1=HEAD + ROWS + END,
        job2=RAYBENCH,
        job3=HEAD + ROWS + "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 272.31\n",
        job4=RAYBENCH.replace("OK: 24", "CRITICAL: rank 3 died after 24"),
        job5=TORCHRUN,
        job6=HEAD + ROWS,
        job7="hello from a job\n",
        job8="# raybench run 20261123-132221-f6ed: 4 nodes, 32 ranks, nccl, 41 s\n",
    )
    found = {str(job.job): job for job in import_outputs([str(tmp_path / "slurm-*.out")])}
    verdicts = {number: job.verdict for number, job in found.items()}
    assert verdicts["1"] == "ok"
    assert verdicts["2"] == "ok"
    assert verdicts["3"] == "critical"
    assert verdicts["4"] == "critical"
    assert verdicts["5"] == "critical"
    assert verdicts["6"] in ("incomplete", "critical")
    assert (verdicts["7"], verdicts["8"]) == ("unknown", "incomplete")
    assert "3 values are wrong" in found["3"].reason or "wrong" in found["3"].reason
    assert "rank 3 died" in found["4"].reason
    assert exit_code_of(list(found.values())) == 1
    assert exit_code_of([found["1"], found["7"]]) == 3
    assert exit_code_of([found["1"], found["2"]]) == 0


# As in the tutorials of computing centres; of transformers' Trainer; and of Lightning.
TRAINED = (
    "World size: {ranks}\nEpoch 48: train_loss=0.1210 val_loss=0.1250 val_acc=0.9511\n"
    "Epoch 49: train_loss=0.1201 val_loss=0.1187 val_acc=0.9530\nBest validation loss: 0.1187\n"
    "Total training time: {seconds} seconds\n"
)


def test_trainings_of_any_program_are_compared(tmp_path: Path) -> None:
    write(
        tmp_path,
        job1=TRAINED.format(ranks=1, seconds=362.45),
        job4=TRAINED.format(ranks=4, seconds=95.23),
        job8=TRAINED.format(ranks=8, seconds=57.14),
        job9=TRAINED.format(ranks=8, seconds=9).rpartition("Total")[0],
        job10=TRAINED.format(ranks=8, seconds=9) + TORCHRUN,
    )
    answer = CliRunner().invoke(command, ["import", str(tmp_path / "slurm-*.out")])
    assert "job 1: OK: trained in 362.45 s on 1 rank, validation loss 0.1187, accuracy 95.3%" in answer.output
    assert "job 4: 3.81x the speed of the fewest ranks, 95.2% efficient" in answer.output
    assert "job 8: 6.34x the speed of the fewest ranks, 79.3% efficient" in answer.output
    assert "job 9: UNKNOWN: trained on 8 ranks, validation loss 0.1187, accuracy 95.3%; no line says" in answer.output
    assert "job 10: CRITICAL" in answer.output  # whatever it printed before it broke
    assert answer.exit_code == 1


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("{'train_runtime': 61.5, 'train_samples_per_second': 3.2}", TrainingOutput(seconds=61.5)),
        ("Total training time: 1.5 min", TrainingOutput(seconds=90.0)),
        ("training time = 2 hours", TrainingOutput(seconds=7200.0)),
        (
            "{'eval_loss': '2.31', 'eval_accuracy': 0.41}",
            TrainingOutput(validation_loss=2.31, validation_accuracy=0.41),
        ),
        ("Validation accuracy: 95.3 %", TrainingOutput(validation_accuracy=0.953)),
        ("val_acc: 95.3", None),  # of what, it does not say
        ("train_loss=0.12", None),
        ("Total training time: soon", None),
        ("GPUs: 8", None),
        ("training time: 3 parsecs", None),
    ],
)
def test_what_a_line_says_of_a_training(line: str, found: TrainingOutput | None) -> None:
    assert output_of([line]).training == found


def test_files_of_a_job_are_one_job_and_its_results_are_named(tmp_path: Path) -> None:
    write(tmp_path, job1417=RAYBENCH)
    (tmp_path / "train.1417.err").write_text("")
    run = tmp_path / "slurm-1417" / "20261123-132221-f6ed"
    run.mkdir(parents=True)
    (run / "result.json").write_text("{}")
    nodes = EndedJob(job_id="1417", command=("run",), exit_code=3, reason="Ray did not come up on 1 of 4 nodes")
    nodes.write(tmp_path / "slurm-1417")
    (job,) = import_outputs([str(tmp_path / "slurm-1417.out"), str(tmp_path / "train.1417.err")])
    assert len(job.files) == 2
    assert job.results == (run,)
    assert (job.verdict, job.reason) == ("incomplete", "Ray did not come up on 1 of 4 nodes")


def test_what_cannot_be_read_is_invalid_usage(tmp_path: Path) -> None:
    for pattern in (str(tmp_path / "slurm-*.out"), str(tmp_path)):
        with pytest.raises(UsageError, match="slurm-"):
            import_outputs([pattern])


def test_the_command_prints_text_or_json_and_ends_with_the_verdict(tmp_path: Path) -> None:
    write(tmp_path, job1=HEAD + ROWS + END, job2=RAYBENCH + "\x1b[31m")
    shown = CliRunner().invoke(command, ["import", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "job 1: OK" in shown.output
    assert "all_reduce: 272.31 GB/s average busbw, 481.53 GB/s at 1073741824 bytes" in shown.output
    assert "raybench run 20261123-132221-f6ed: 4 nodes" in shown.output
    as_json = json.loads(CliRunner().invoke(command, ["import", str(tmp_path), "--json"]).output)
    assert [job["job_id"] for job in as_json["jobs"]] == ["1", "2"]
    assert as_json["jobs"][0]["diagnosis"]["schema"] == "raybench.diagnosis/1"
