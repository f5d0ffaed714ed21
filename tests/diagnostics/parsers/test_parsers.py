import re

import pytest

from diagnostics.facts import read_devices, version_numbers
from diagnostics.parsers import FOREIGN_PATTERNS, PATTERNS, warnings
from diagnostics.parsers.base import Pattern, read_message
from diagnostics.scanning import literals, unmarked
from diagnostics.scanning.prefix import bare_message, clean, launcher_rank, split_messages

LINE = "gpu-a:4101:4141 [3] NCCL INFO Using network IB"
WRAPPED = {
    "plain": (LINE, None),
    "torchrun": ("[default3]:" + LINE, None),
    "pytorch": ("[rank3]:" + LINE, 3),
    "torchrun and pytorch": ("[default0]:[rank3]:" + LINE, 3),
    "mpirun": ("[1,11]<stdout>:" + LINE, 11),
    "srun": (" 8: " + LINE, 8),
    "pdsh": ("gpu-a: " + LINE, None),
    "ray": ("(RayTrainWorker pid=285, ip=10.0.0.1) " + LINE, None),
    "nested ray": ("(EngineCore_DP0 pid=1088) (RayWorkerWrapper pid=285, ip=192.168.1.2) " + LINE, None),
    "ray repeated": (LINE + " [repeated 7x across cluster] (Ray deduplicates logs)", None),
    "compose": ("worker-1  | " + LINE, None),
    "kubectl": ("[pod/train-0/main] " + LINE, None),
    "timestamps": ("2026-01-02T03:04:05.678Z " + LINE, None),
    "nccl timestamp": ("[2026-01-02 03:04:05] " + LINE, None),
    "python logging": ("INFO 12-18 20:27:21 worker.py:12] " + LINE, None),
    "ansi": ("\x1b[36m(pid=1)\x1b[0m " + LINE, None),
    "ansi, pasted": ("[36m(pid=1)[0m " + LINE + "[0m", None),
    "ansi, spelled out": ("\\u001b[1;32m[rank0]:^[[0m " + LINE, 0),
    "crlf": (LINE + "\r", None),
    "progress bar": ("50%|#####     |\r" + LINE, None),
    "quoted": ("> " + LINE, None),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_prefix_survives_its_wrapper(name: str) -> None:
    raw, rank = WRAPPED[name]
    (message,) = split_messages(clean(raw.encode()))
    assert (message.host, message.pid, message.thread, message.device) == ("gpu-a", 4101, 4141, 3)
    assert message.text == "Using network IB"
    assert message.rank == rank


def test_brackets_that_are_no_colours_stay() -> None:
    assert clean(b"step [0;5] of mlx5_[0m) at [30s] and x[0mm]") == "step [0;5] of mlx5_) at [30s] and xm]"
    assert clean(b"waited [3m20s], then [5 ms]") == "waited [3m20s], then [5 ms]"


def test_host_is_cut_at_the_first_dot_and_may_be_anonymised() -> None:
    (message,) = split_messages("<cluster_name>:924:924 [ 6 ] NCCL INFO hello")
    assert (message.host, message.device) == ("<cluster_name>", 6)
    (message,) = split_messages("node1.example.org:924:925 [0] NCCL INFO hello")
    assert message.host == "node1"


def test_file_with_spaces_and_colons_before_a_warning() -> None:
    text = "h:1:2 [0] int f(void*, std::pair<int, int>):1615 NCCL WARN NET/OFI broken"
    (message,) = split_messages(text)
    assert (message.host, message.level, message.text) == ("h", "WARN", "NET/OFI broken")


def test_glued_lines_are_taken_apart() -> None:
    first, second = split_messages(
        "h:1:2 [0] NCCL INFO comm 0x1 rank 1 nranks h:3:4 [1] NCCL INFO Using network Socket"
    )
    assert first.torn
    assert (second.pid, second.text) == (3, "Using network Socket")


@pytest.mark.parametrize(
    ("text", "first", "host"),
    [
        (
            "[0] NCCL INFO NET/IB : No device found. [0] NCCL INFO Using network Socket",
            "NET/IB : No device found.",
            None,
        ),
        (
            "[0] NCCL INFO NCCL_IB_HCA set to mlx5_0:1,mlx5_1:1 [0] NCCL INFO Using network Socket",
            "NCCL_IB_HCA set to mlx5_0:1,mlx5_1:1",
            None,
        ),
        (
            "[0] NCCL INFO NET/IB : No device found. [1] misc/socket.cc:49 NCCL WARN Using network Socket",
            "NET/IB : No device found.",
            None,
        ),
        ("[0] NCCL INFO nranks n1:31 [1] NCCL INFO Using network Socket", "nranks", "n1"),
        ("[0] NCCL INFO NET/Socket : Using [0] NCCL INFO Using network Socket", "NET/Socket : Using", None),
    ],
)
def test_messages_pasted_in_one_line_without_their_hosts_are_taken_apart(
    text: str, first: str, host: str | None
) -> None:
    before, after = split_messages(text)
    assert (before.text, before.host) == (first, None)
    assert (after.text, after.host) == ("Using network Socket", host)


def test_call_lines_have_no_device() -> None:
    (message,) = split_messages("h:1:2 NCCL CALL ncclAllReduce(1, 2)")
    assert (message.host, message.pid, message.level) == ("h", 1, "CALL")


def test_a_line_without_mark_gives_nothing() -> None:
    assert not list(split_messages("epoch 3 loss 0.1"))
    assert launcher_rank("epoch 3") is None
    assert bare_message("> [2026-01-02 03:04:05] NET/IB : No device found.") == "NET/IB : No device found."


@pytest.mark.parametrize(
    "pattern", [*PATTERNS, *FOREIGN_PATTERNS], ids=lambda pattern: f"{pattern.kind}:{pattern.literal}"
)
def test_every_pattern_reads_its_samples(pattern: Pattern) -> None:
    assert pattern.samples
    for sample in pattern.samples:
        assert [kind for kind, _ in read_message([pattern], sample)] == [pattern.kind], sample


# Kinds that a big log keeps only of its beginning, or where NCCL prints them as a warning.
NOT_LATE = {
    *(
        "algorithm-syntax",
        "allocator-refused",
        "cuda-driver",
        "dmabuf-available",
        "hint",
        "host-setting",
        "nic-distance",
        "plugin-named",
        "rank-named",
    ),
    *("notice", "p2p-support", "pci-link", "proxy-victim", "sharp-unavailable", "socket-connection"),
    *("socket-refused", *warnings.KINDS),
}


@pytest.mark.parametrize(
    "pattern", [*PATTERNS, *FOREIGN_PATTERNS], ids=lambda pattern: f"{pattern.kind}:{pattern.literal}"
)
def test_every_pattern_is_found_in_the_middle_of_a_big_log(pattern: Pattern) -> None:
    """There the scan reads only lines that hold what diagnostics/scanning/literals.py lists, and NCCL's warnings."""
    expressions = (*literals.EXPRESSIONS, *literals.DETAIL, *literals.INIT, *literals.ODD)
    for sample in pattern.samples:
        line = f"h1:7:9 [0] NCCL INFO {sample}"
        passes = any(text in line for text in (*literals.ALWAYS, *unmarked.BODIES)) or any(
            re.search(expression, line.encode()) for expression in expressions
        )
        assert passes or pattern.kind in NOT_LATE, (
            f"{sample!r}: add {pattern.literal!r} to ALWAYS in diagnostics/scanning/literals.py, or where every "
            "such line is an NCCL WARN the kind to NOT_LATE in tests/diagnostics/parsers/test_parsers.py"
        )


def test_merged_nics_give_each_port() -> None:
    devices = read_devices("[0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [1]mlx5_4:2/IB [RO]")
    assert [(device.name, device.port, device.layer) for device in devices] == [
        ("mlx5_0", 1, "RoCE"),
        ("mlx5_1", 1, "RoCE"),
        ("mlx5_4", 2, "IB"),
    ]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("2.12.6azure3+cuda11.4", (2, 12, 6)), ("2.18.3+hip5.7 HEAD:b5027", (2, 18, 3)), ("2.4", (2, 4, 0)), ("x", None)],
)
def test_version_numbers(text: str, numbers: tuple[int, int, int] | None) -> None:
    assert version_numbers(text) == numbers
