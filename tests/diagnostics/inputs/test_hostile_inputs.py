"""Files and folders made to hurt whoever diagnoses them: each is read in a process with little memory and time."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import resource
import signal
import socket
import struct
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.errors import UnreadableInputError
from diagnostics.inputs.files import find_inputs
from diagnostics.inputs.flight_recorder import DamagedDumpError, Recorder
from diagnostics.inputs.plain_pickle import NotPlainError, load_plain

MEMORY_BYTES = 2**30  # beyond what the test process has
SECONDS = 20  # of a processor: beside other work more pass
LOG = b"n1:7:7 [0] NCCL INFO Using network IB\n"
_IN_BOUNDS, _DAMAGED, _OTHER = 0, 7, 9
_LIMITS = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, 10 * SECONDS))


def outcome(action: Callable[[], object]) -> int:
    """How the action ends in a child with bounds on memory and time."""
    child = os.fork()
    if child == 0:
        code = _OTHER
        try:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + MEMORY_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            for number, timer, seconds in _LIMITS:
                signal.signal(number, signal.SIG_DFL)  # pytest's own handler would be another exception
                signal.setitimer(timer, seconds)
            action()
            code = _IN_BOUNDS
        except (DamagedDumpError, UnreadableInputError):
            code = _DAMAGED
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def unicode(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def entries(values: bytes) -> bytes:
    """A pickle of {"entries": [{"input_sizes": <values>}]}."""
    return b"\x80\x02}" + unicode("entries") + b"]}" + unicode("input_sizes") + values + b"sas."


def doubled(levels: int) -> bytes:
    """A list that holds the one below twice, and so on: 2**levels when it is written out."""
    return b"]q\x00" + b"".join(b"](h%ch%ceq%c" % (n % 256, n % 256, (n + 1) % 256) for n in range(levels))


COLLIDING = b"".join(b"\x8a\x0a" + (n * (2**61 - 1)).to_bytes(10, "little") + b"N" for n in range(200_000))

PICKLES = {
    "a place in the memo beyond all memory": b"\x80\x02]r\xff\xff\xff\x7f.",
    "nine bytes": b"\x80\x04Nr\xff\xff\xff\x0f.",
    "two places far apart": b"\x80\x02]r\xff\xff\xff\x0f]r\xff\xff\xff\x3f.",
    "a text of four gigabytes": b"\x80\x02X\xff\xff\xff\xff.",
    "a text of 2**63 bytes": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a frame of 2**63 bytes": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a number of gigabytes": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "lists that share lists": entries(doubled(60)),
    "tuples that share tuples": entries(b"]q\x00" + b"h\x00h\x00\x86q\x00" * 60),
    "dicts that share dicts": entries(b"}q\x00" + b"".join(b"}" + unicode("a") + b"h\x00sq\x00" for _ in range(60))),
    "a list in itself": entries(b"]q\x00h\x00ah\x00a"),
    "400 KB of nested lists": entries(b"]" * 200_000 + b"a" * 199_999),
    "400 KB of nested tuples": entries(b")" + b"\x85" * 400_000),
    "400 KB of marks": b"\x80\x02" + b"(" * 400_000,
    "only lists": b"\x80\x02" + b"]" * 2_000_000 + b".",
    "only dicts with an entry": b"\x80\x02" + unicode("a") + b"q\x00" + b"}h\x00Ns" * 300_000 + b".",
    "numbers with one hash": entries(b"}(" + COLLIDING + b"u"),
    "a mark without an end": b"\x80\x02(((((",
    "a class": pickle.dumps({"entries": [Path("/")]}),
    "a reduction": b"cos\nsystem\n(S'true'\ntR.",
    "a persistent object": b"\x80\x02Pid\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "a list for a dict": b"\x80\x02](" + unicode("a") + b"Nu.",
}
JSONS = {
    "nested lists": b'{"entries": ' + b"[" * 400_000,
    "nested and closed": b'{"entries": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "nested dicts": b'{"entries":' * 100_000,
    "a number of a million digits": b'{"entries": [{"collective_seq_id": ' + b"9" * 10**6 + b"}]}",
    "many numbers of 4000 digits": b'{"entries": [' + b",".join([b"7" * 4000] * 5000) + b"]}",
    "a number without end": b'{"entries": [{"collective_seq_id": 1e999999999}]}',
    "no numbers": b'{"entries": [{"collective_seq_id": NaN, "pg_id": -Infinity, "input_sizes": [[true, null]]}]}',
    "sixty million bytes of lists": b'{"entries": [' + b"[]," * 20_000_000 + b"[]]}",
    "a rank that is not a number": b'{"entries": [], "rank": "' + b"x" * 10**6 + b'"}',
    "entries in entries": b'{"entries": [[{"entries": []}]]}',
}


@pytest.mark.parametrize("data", PICKLES.values(), ids=PICKLES.keys())
def test_a_hostile_pickle_is_read_or_refused_within_bounds(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(data)
    assert outcome(lambda: Recorder().read(str(tmp_path / "nccl_trace_rank_0"))) in {_IN_BOUNDS, _DAMAGED}


def test_places_in_the_memo_are_counted() -> None:
    with pytest.raises(NotPlainError, match="stores more than 2,500,000 values"):
        load_plain(b"\x80\x02N" + b"\x94" * 2_500_001 + b".")


@pytest.mark.parametrize("data", JSONS.values(), ids=JSONS.keys())
def test_a_hostile_json_dump_is_read_or_refused_within_bounds(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(data)
    assert outcome(lambda: Recorder().read(str(tmp_path / "nccl_trace_rank_0"))) in {_IN_BOUNDS, _DAMAGED}


def test_a_hostile_dump_does_not_hide_the_log_beside_it(tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(PICKLES["nine bytes"])
    (tmp_path / "nccl_trace_rank_1").write_bytes(PICKLES["a class"])
    (tmp_path / "a.log").write_bytes(LOG)
    diagnosis = diagnose_paths([tmp_path])
    assert diagnosis.network == "ib"
    assert any("nccl_trace_rank_1" in note for note in diagnosis.notes)


def test_what_pytorch_writes_is_read_as_before(tmp_path: Path) -> None:
    """Memoised texts in the second protocol, as torch's own pickler writes, and the newer ones of Python."""
    content = {
        "version": "2.10",
        "rank": 3,
        "pg_config": {"0": {"name": "0", "ranks": "[0, 1]"}},
        "entries": [
            {
                "process_group": ("0", "default_pg"),
                "collective_seq_id": number,
                "profiling_name": "nccl:all_reduce",
                "input_sizes": [[4, number], []],
                "time_created_ns": 1_700_000_000_000_000_000 + number,
                "state": "completed",
                "retired": True,
                "duration_ms": 0.5,
                "frames": [{"name": "f", "filename": "a.py", "line": 70_000}],
            }
            for number in range(300)
        ],
    }
    for protocol in (2, 3, 4, 5):
        (tmp_path / "nccl_trace_rank_3").write_bytes(pickle.dumps(content, protocol=protocol))
        record = Recorder().read(str(tmp_path / "nccl_trace_rank_3"))
        assert (record.rank, record.last_sequence, len(record.entries)) == (3, {"0": 299}, 300)
        assert record.entries[7] == ("0", 7, "all_reduce", "completed", "[[4, 7], []]")


def test_the_newest_entries_of_a_long_dump_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.inputs.flight_recorder.MAX_ENTRIES", 10)
    rows = [{"pg_id": 0, "collective_seq_id": number} for number in range(50)]
    (tmp_path / "nccl_trace_rank_0").write_text(json.dumps({"entries": rows}))
    assert [row[1] for row in Recorder().read(str(tmp_path / "nccl_trace_rank_0")).entries] == list(range(40, 50))


def special_files(folder: Path) -> None:
    """What a folder may hold beside logs, to hang or mislead its reader."""
    os.mkfifo(folder / "pipe.log")
    os.mkfifo(folder / "nccl_trace_rank_9")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket.log"))
    listener.close()
    for number, target in enumerate(
        ("/proc/kmsg", "/sys/kernel/debug/tracing/trace_pipe", "/dev/zero", "/proc/self/mem", "/dev/tty", "/etc/passwd")
    ):
        (folder / f"link{number}.log").symlink_to(target)
    (folder / "nccl_trace_rank_8").symlink_to("/dev/zero")
    (folder / "loop").symlink_to(folder)
    (folder / "self.log").symlink_to("self.log")
    (folder / "root").symlink_to("/")


def test_a_folder_is_read_without_its_links_pipes_sockets_and_devices(tmp_path: Path) -> None:
    special_files(tmp_path)
    (tmp_path / "a.log").write_bytes(LOG)
    assert outcome(lambda: diagnose_paths([tmp_path])) == _IN_BOUNDS
    diagnosis = diagnose_paths([tmp_path])
    assert diagnosis.lines.read == 1
    assert any("leads out of the folder" in note for note in diagnosis.notes)


@pytest.mark.parametrize(
    ("link", "pattern", "told"),
    [
        ("rank1.log", "", True),
        ("rank1.log", "/*", True),
        ("rank1.png", "", False),
        (".rank1.log", "", False),
        (".rank1.log", "/*", False),
    ],
)
def test_a_log_that_is_only_a_link_to_nothing_is_missed(tmp_path: Path, link: str, pattern: str, told: bool) -> None:
    (tmp_path / "rank0.log").write_bytes(LOG)
    (tmp_path / link).symlink_to(tmp_path / "nowhere")
    notes = diagnose_paths([f"{tmp_path}{pattern}"]).notes
    assert any("a link to a file that is not there" in note for note in notes) == told


def test_a_glob_follows_no_link_out_of_the_folder_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, secret = tmp_path / "logs", tmp_path / "secret"
    for folder in (logs / "sub", secret):
        folder.mkdir(parents=True)
        (folder / "a.log").write_bytes(LOG)
    special_files(logs)
    (logs / "way").symlink_to(secret)
    (logs / "b.log").symlink_to(secret / "a.log")
    (logs / "gone.log").symlink_to(tmp_path / "nowhere")
    monkeypatch.chdir(logs)
    for pattern in (f"{logs}/*", f"{logs}/**", f"{logs}/*/a.log", "*", "./*"):
        assert outcome(partial(diagnose_paths, [pattern])) == _IN_BOUNDS, pattern
        diagnosis = diagnose_paths([pattern])
        assert diagnosis.lines.read == 1, pattern
        assert any("leads out of the folder" in note for note in diagnosis.notes), pattern
    for pattern in (f"{logs}/b.*", f"{logs}/way/*.log"):
        named = "way" in pattern  # a link that the user names is followed
        assert ([one.name for one in find_inputs([pattern]).files] if named else refusal(pattern)) == (
            [str(logs / "way" / "a.log")] if named else "leads out"
        )


def refusal(pattern: str) -> str:
    with pytest.raises(UnreadableInputError, match="leads out") as error:
        find_inputs([pattern])
    return "leads out" if pattern in str(error.value) else ""


def test_a_glob_reads_links_within_the_folder_once(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(LOG)
    (tmp_path / "latest.log").symlink_to("a.log")
    diagnosis = diagnose_paths([f"{tmp_path}/*.log"])
    assert (diagnosis.lines.read, diagnosis.notes) == (1, ())
    assert diagnose_paths([f"{tmp_path}/l*.log"]).lines.read == 1


def test_links_within_the_folder_need_no_word(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(LOG)
    (tmp_path / "latest.log").symlink_to("a.log")
    diagnosis = diagnose_paths([tmp_path])
    assert (diagnosis.lines.read, diagnosis.notes) == (1, ())


def test_a_file_exchanged_for_a_link_after_it_was_listed_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, secret = tmp_path / "logs", tmp_path / "secret"
    (logs / "sub").mkdir(parents=True)
    secret.mkdir()
    for folder in (logs / "sub", secret):
        (folder / "a.log").write_bytes(LOG)
    (logs / "b.log").write_bytes(LOG)
    from diagnostics import engine

    find = engine.find_inputs

    def find_and_exchange(paths: list[str]) -> object:
        found = find(paths)
        (logs / "sub").rename(tmp_path / "gone")
        (logs / "sub").symlink_to(secret)
        (logs / "b.log").unlink()
        (logs / "b.log").symlink_to(secret / "a.log")
        return found

    monkeypatch.setattr(engine, "find_inputs", find_and_exchange)
    with pytest.raises(UnreadableInputError):
        diagnose_paths([logs])


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "a.log").open("wb") as file:
        file.write(LOG)
        file.truncate(2**43)
    assert outcome(lambda: diagnose_paths([tmp_path / "a.log"])) == _DAMAGED
    assert outcome(lambda: diagnose_paths([tmp_path])) == _DAMAGED


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "zeros.gz": lambda: gzip.compress(bytes(2**26), 1) * 10,
    "zeros.xz": lambda: lzma.compress(bytes(2**26), preset=0) * 5,
    "zeros.bz2": lambda: bz2.compress(bytes(2**23)) * 33,
    "lines.gz": lambda: gzip.compress(b"\n" * 2**25, 1),
    "one-line.gz": lambda: gzip.compress(b"NCCL WARN " * 2**23, 1),
    "greedy.xz": lambda: lzma.compress(LOG, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 2**28}]),
    "gz-in-gz.gz": lambda: gzip.compress(gzip.compress(bytes(2**26), 1)),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_read_within_bounds(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(ARCHIVES[name]())
    assert outcome(lambda: diagnose_paths([tmp_path])) in {_IN_BOUNDS, _DAMAGED}


def test_links_in_a_tar_archive_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"n9:9:9 [0] NCCL INFO Using network Secret\n")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo("a.log")
            link.type, link.linkname = kind, str(tmp_path / "secret")
            archive.addfile(link)
        data = tarfile.TarInfo("../../b.log")
        data.size = len(LOG)
        archive.addfile(data, io.BytesIO(LOG))
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "logs.tar.gz").write_bytes(packed.getvalue())
    assert diagnose_paths([folder]).network == "ib"
    assert sorted(path.name for path in folder.iterdir()) == ["logs.tar.gz"]


TORN = """\
gpu-a:4101:4141 [0] NCCL INFO NCCL version 2.26.2+cuda12.8
gpu-b:7301:7341 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 1 nranks 2 cudaDev 0 busId 1000 commId 0x6 - Init START
gpu-a:4101:4141 [0] NCCL INFO Channel 00/0 -> 0[0] [receive] via NET/IB/0/GDRDMA
gpu-b:7301:7341 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 1 nranks 2 cudaDev 0 busId 1000 commId 0x6 - Init COMPLETE
"""


def test_a_channel_whose_number_was_torn_off_is_read(tmp_path: Path) -> None:
    """Found by fuzz.py."""
    (tmp_path / "a.log").write_text(TORN)
    assert diagnose_paths([tmp_path / "a.log"]).lines.read == 4


def test_what_imitates_the_inspector_or_ras_takes_no_time(tmp_path: Path) -> None:
    header = '{"header":{"id":"0x1","rank":1,"n_ranks":8},"coll_perf":{"coll":"A","coll_sn":1,"coll_msg_size_bytes":'
    lines = [
        header * 60 + '"coll_busbw_gbs"',
        header + "9" * 5000 + ',"coll_exec_time_us":1,"coll_busbw_gbs":1',
        '{"a":' * 3000 + '"coll_busbw_gbs"' + "}" * 3000,
        header + '[],"coll_exec_time_us":{},"coll_busbw_gbs":null}}',
        "Rank 1 reported " + "-- " * 1900 + " managed by process x",
        " " * 5900 + "#0-0 (" + "a" * 16 + ") MISMATCH",
        "Process 1 on node " + "n" * 5000 + " managing GPU",
    ]
    (tmp_path / "a.log").write_text("\n".join(lines * 20) + "\n")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    diagnosis = diagnose_paths([tmp_path / "a.log"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5
    assert not [unsure for unsure in diagnosis.rules_cannot_tell if "error in the rule" in unsure.why]


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/urandom", "/dev/full"])
def test_a_device_without_an_end_is_refused_when_it_is_named(name: str) -> None:
    """Near miss: a pipe, as a shell names one for <(command)."""
    with pytest.raises(UnreadableInputError, match="is not a regular file"):
        diagnose_paths([name])
    reader, writer = os.pipe()
    os.write(writer, b"n1:7:7 [0] NCCL INFO Using network Socket\n")
    os.close(writer)
    try:
        assert diagnose_paths([f"/dev/fd/{reader}"]).network == "socket"
    finally:
        os.close(reader)
