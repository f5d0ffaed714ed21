"""Readers of what other users, hosts or programs write, each with whole inputs and what it may say of damaged ones.

``python -m tests.security.readers --count 10000 --seed 1 --of probe`` feeds them. Logs have a fuzzer
of their own (tests/diagnostics/fuzz.py), and so have documents (tests/documents/mutation.py).
"""

import argparse
import json
import random
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from diagnostics.agent.message_reader import MessageReader
from diagnostics.agent.messages import Clock, Event, Reading, Source
from diagnostics.agent.messages import encode as encode_message
from diagnostics.engine import diagnose_paths
from diagnostics.inputs.flight_recorder import DamagedDumpError, Recorder
from raybench.benchmarks.checkpoint.manifest import CheckpointError, Manifest, Part, Tensor
from raybench.benchmarks.checkpoint.manifest import decode as decode_manifest
from raybench.benchmarks.events import PointMeasured, RankReady
from raybench.benchmarks.events import encode as encode_event
from raybench.benchmarks.training.models.weight_config import details_of
from raybench.benchmarks.training.models.weight_files import entries_of
from raybench.config import load_config
from raybench.errors import UsageError
from raybench.execution.event_check import EventError, event_of
from raybench.execution.node_actors.answers import AnswerError, decode_answer, encode_answer
from raybench.hosts.inventory import _decoded
from raybench.preflight.fabric.conduct import final_report, plan_confirmation, plan_scan
from raybench.preflight.fabric.errors import NoFigureError
from raybench.preflight.fabric.iperf import parse_iperf, parse_own_stream
from raybench.preflight.fabric.perftest import parse_bandwidth, parse_latency
from raybench.preflight.fabric.settings import FabricSettings
from raybench.preflight.parsers import amd_smi, amd_xgmi, nvidia_smi, optics, pci, rdma, system
from raybench.preflight.probe_answer import unpack
from raybench.preflight.report import Gathered, build_report
from raybench.preflight.subnet.formats import FORMATS as SUBNET_FORMATS
from raybench.preflight.subnet.formats import format_of as format_of_subnet
from raybench.preflight.subnet.judgement import ToldFile, judge
from raybench.reports.terminal.top import top_lines
from raybench.services.completing.place import inventory_names
from raybench.services.top import live_run
from raybench.timeline.importing.formats import format_of
from raybench.timeline.importing.sample import Told
from tests.diagnostics.inputs.test_tests_results import DOCUMENT as TESTS_RESULT
from tests.diagnostics.mutation import mutated as mutated_lines
from tests.documents.mutation import mutated as mutated_document
from tests.preflight import recorded
from tests.preflight.fabric.test_conduct import TIMES, hosts, run
from tests.preflight.subnet.fabric import db_csv, ufm_ports
from tests.security.host_readers import HOST_READERS
from tests.security.reader import Reader, in_msgpack, in_pickle, in_probe, parse_all, read_file, signed, with_length
from tests.security.test_answers import GOOD, PLAN, SAMPLES

RECORDED = Path(__file__).parents[1] / "preflight"
SLOWEST_SECONDS = 5.0


def read_answers(data: bytes) -> list[str]:
    """The questions that these bytes are an answer to."""
    return [question for question in GOOD if is_answer(question, data)]


def is_answer(question: str, data: bytes) -> bool:
    try:
        decode_answer(question, data)
    except AnswerError:
        return False
    return True


def read_inventory(data: bytes) -> object:
    answer = subprocess.CompletedProcess([], 0, stdout=data.decode("utf-8", "replace"), stderr="")
    return _decoded(answer, ("inventory",), None)


def judge_host(data: bytes) -> object:
    facts = unpack(data.decode("latin-1"))
    return build_report([Gathered(host="a", facts=facts, sent_at=0.0, received_at=1.0)], finished_at=2.0).to_json()


def judge_fabric(data: bytes) -> object:
    """What the hosts' fabric agents returned, as the playbook's step gets it: JSON that is whole, of any form."""
    try:
        results = json.loads(data)
    except (ValueError, RecursionError):
        return None  # Ansible decodes it, and fails that host
    replies, settings = hosts(3), FabricSettings(scope="all")
    plan_confirmation(replies, settings, results, done=2, token="t", forks=5)
    return final_report(replies, settings, results, run_id="r", times=TIMES).to_json()


def plan_fabric(data: bytes) -> object:
    """What a host says that it has to test with."""
    try:
        end = json.loads(data)
    except (ValueError, RecursionError):
        return None
    (first, second, _), settings = hosts(3), FabricSettings(scope="all")
    odd = type(first)(name="odd", end=end, problem="", options={})
    plan_scan([first, second, odd], settings, token="t", forks=5)
    return final_report([first, second, odd], settings, {}, run_id="r", times=TIMES).to_json()


def results_of_fabric() -> list[Any]:
    settings, results = FabricSettings(scope="all"), {}
    run(plan_scan(hosts(3), settings, token="t", forks=5), lambda *_: 392.0, results)
    return [results]


def judge_subnet(data: bytes) -> object:
    """A file of a fabric's tools, as each format that there is, and what is then judged of all of them."""
    text = data.decode("utf-8", "replace")
    told = [one.parse(text) for one in SUBNET_FORMATS]
    taken = [one.title for one in SUBNET_FORMATS if one.is_it(text)]
    assert (format_of_subnet(text) is None) == (not taken)
    return taken and [*taken, judge([ToldFile(name="f", told=one, lines=text.splitlines()) for one in told])]


def subnet_files() -> list[bytes]:
    return [*texts("subnet/recorded", (".txt", ".log", ".json")), db_csv().encode(), ufm_ports().encode()]


def messages() -> list[Any]:
    said = (
        Clock(wall_seconds=1e9, monotonic_seconds=5.0, host="a", interval_seconds=1.0),
        Source(monotonic_seconds=5.0, name="gpu", available=False, reason="no driver"),
        Reading(monotonic_seconds=6.0, source="nic", values={"nic/eth0/sent_bytes": 7.0}),
        Event(monotonic_seconds=7.0, source="kernel", device="", text="NVRM: Xid 79"),
    )
    return [json.loads(encode_message(one)) for one in said]


def manifests() -> list[Any]:
    part = Part(offsets=(0,), sizes=(4,), file="rank-0.bin", start=0, length=16, crc32=7)
    whole = Manifest(tensors={"a": Tensor(dtype="float32", shape=(4,), parts=(part,))}, compression="none")
    return [json.loads(whole.encode())]


def texts(folder: str, suffixes: Sequence[str] = (".txt", ".json")) -> list[bytes]:
    return [path.read_bytes() for path in sorted((RECORDED / folder).iterdir()) if path.suffix in suffixes]


def printed() -> list[bytes]:
    named = [value for name, value in vars(recorded).items() if name.isupper() and isinstance(value, str)]
    return [text.encode() for text in named] + texts("recorded_rdma") + texts("recorded_alarms")


def probe_facts() -> list[Any]:
    from tests.preflight.test_report import fine

    return [fine("a").facts]


def dump() -> list[Any]:
    entry = {"process_group": ["0", "default_pg"], "collective_seq_id": 3, "profiling_name": "nccl:all_reduce",
             "input_sizes": [[4]], "state": "scheduled", "time_created_ns": 5}  # fmt: skip
    return [{"version": "2.5", "entries": [entry, entry], "rank": 0}]


def event_documents() -> list[Any]:
    events = (RankReady(rank=0, facts={}), PointMeasured(rank=0, benchmark=0, samples=SAMPLES))
    return [msgspec.msgpack.decode(encode_event(one)) for one in events]


def answers() -> list[Any]:
    plain = (one for name, one in GOOD.items() if name in {"facts", "positions", "long_traces", "traffic"})
    return [msgspec.msgpack.decode(encode_answer(one)) for one in plain]


PARSERS: tuple[Callable[[str], object], ...] = (
    amd_smi.parse_amd_smi,
    amd_xgmi.parse_link_rates,
    amd_xgmi.parse_link_states,
    amd_smi.parse_rocm_smi,
    optics.measured,
    optics.parse_ethtool_statistics,
    optics.parse_mlxlink,
    optics.parse_module,
    nvidia_smi.parse_nvlink_errors,
    nvidia_smi.parse_smi,
    nvidia_smi.parse_nvlink_status,
    nvidia_smi.parse_topology,
    pci.parse_lspci,
    rdma.parse_ibstat,
    rdma.parse_rdma_link,
    rdma.parse_fi_info,
    rdma.parse_mlnx_qos,
    rdma.parse_dcb_pfc,
    lambda text: system.xids_of(system.parse_dmesg(text, 100.0)),
    system.parse_chrony,
    system.parse_ntpq,
    system.parse_pairs,
    system.parse_meminfo,
    system.parse_modules,
    system.parse_packages,
)
FIGURES = (parse_bandwidth, parse_latency, parse_iperf, parse_own_stream)
TOLD = Told(
    zone=UTC, begin=datetime(2026, 11, 23, tzinfo=UTC), interval_seconds=1.0, day=datetime(2026, 11, 23, tzinfo=UTC)
)


def weight_configs() -> list[Any]:
    stretched = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return [
        {
            "rope_theta": 5e5,
            "rms_norm_eps": 1e-6,
            "rope_scaling": {**stretched, "original_max_position_embeddings": 8192},
        },
        {"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5},
    ]


def parse_samples(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    return format_of(text, "it").parse(text, TOLD, "it")


def sample_files() -> list[bytes]:
    files = sorted((RECORDED.parent / "timeline" / "imported").iterdir())
    return [path.read_bytes() for path in files if path.suffix != ".md"]


def live_states() -> list[Any]:
    rank = {"rank": 0, "node": "a", "state": "S", "where": "all_reduce", "still_seconds": 1.0}
    machine = {"name": "a", "figures": {"nic eth0 sent GB/s": 1.0}, "silent_seconds": None}
    whole = {"schema": "raybench.live/1", "run_id": "r", "pid": 7, "written_at": 1e9, "elapsed_seconds": 3.0,
             "phase": "measuring", "title": "x", "benchmark": "all_reduce", "progress": "2 of 8", "done": 2, "total": 8,
             "warnings": [{"at_seconds": 2.0, "text": "rank 1 stands still"}]}  # fmt: skip
    return [whole | {"ranks": [rank], "machines": [machine]}]


READERS: dict[str, Reader] = {
    "agent messages": Reader(read=lambda data: list(MessageReader().feed(data + b"\n")), seeds=messages),
    "answers of node actors": Reader(read=read_answers, seeds=answers, encode=in_msgpack),
    "checkpoint manifest": Reader(
        read=lambda data: decode_manifest(data, "it"), seeds=manifests, refuses=(CheckpointError,), encode=signed
    ),
    "configuration": Reader(
        read=read_file(lambda path: load_config(path, {}), "raybench.yml"),
        seeds=lambda: [yaml.safe_dump({"nodes": 2, "sizes": "1K", "env": ["A=b"], "training": {"steps": 5}}).encode()],
        refuses=(UsageError,),
        inputs_in_ci=30,
    ),
    "events of ranks": Reader(
        read=lambda data: event_of(data, (0,), PLAN, 2), seeds=event_documents, refuses=(EventError,), encode=in_msgpack
    ),
    "fabric ends": Reader(
        read=plan_fabric, seeds=lambda: [reply.end for reply in hosts(1)], refuses=(UsageError,)
    ),
    "fabric figures": Reader(read=parse_all(FIGURES, (NoFigureError,)), seeds=lambda: texts("fabric/recorded")),
    "fabric results": Reader(read=judge_fabric, seeds=results_of_fabric, refuses=(UsageError,)),
    "flight-recorder dump, JSON": Reader(
        read=read_file(lambda path: Recorder().read(str(path)), "nccl_trace_rank_0"),
        seeds=dump,
        refuses=(DamagedDumpError,),
    ),
    "flight-recorder dump, pickle": Reader(
        read=read_file(lambda path: Recorder().read(str(path)), "nccl_trace_rank_0"),
        seeds=dump,
        refuses=(DamagedDumpError,),
        encode=in_pickle,
    ),
    "files of a fabric's tools": Reader(read=judge_subnet, seeds=subnet_files),
    "inventory to complete from": Reader(
        read=read_file(lambda path: list(inventory_names([str(path)])), "hosts.yml"),
        seeds=lambda: [yaml.safe_dump({"all": {"hosts": {"a[1:9]": {}}, "children": {"b": {}}}}).encode()],
        inputs_in_ci=30,
    ),
    "inventory listing": Reader(
        read=read_inventory, seeds=lambda: [{"_meta": {"hostvars": {"a": {}}}, "all": {"hosts": ["a"]}}],
        refuses=(UsageError,),
    ),
    "probe answer": Reader(read=judge_host, seeds=probe_facts, refuses=(ValueError,), encode=in_probe),
    "probe texts": Reader(read=parse_all(PARSERS), seeds=printed),
    "result file of nccl-tests": Reader(
        read=read_file(lambda path: diagnose_paths([path]), "out.json"), seeds=lambda: [TESTS_RESULT], inputs_in_ci=30
    ),
    "samples of other tools": Reader(read=parse_samples, seeds=sample_files, refuses=(UsageError,)),
    "state of a run": Reader(
        read=read_file(lambda path: top_lines(live_run(path.parent), 1e9), "live.json"), seeds=live_states,
        refuses=(UsageError,),
    ),
    "configuration of weights": Reader(
        read=read_file(lambda path: details_of(str(path.parent)), "config.json"), seeds=weight_configs,
        refuses=(UsageError,),
    ),
    "weights": Reader(
        read=read_file(entries_of, "model.safetensors"),
        seeds=lambda: [{"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}, "__metadata__": {"x": "y"}}],
        refuses=(UsageError,),
        encode=with_length,
    ),
} | HOST_READERS  # fmt: skip
HOSTILE = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"[" * 20_000,
    b'{"a":' * 20_000,
    b"9" * 20_000,
    b'"\\ud800"',
    b"\x80\x04\x95",
    b"- " * 5_000,
    b"&a [*a, *a]",
)


@cache
def seeds_of(name: str) -> Sequence[Any]:
    return READERS[name].seeds()


def packed(name: str, seed: Any) -> bytes:
    """A whole input of the reader."""
    return READERS[name].encode(seed if isinstance(seed, bytes) else json.dumps(seed).encode())


def damaged(name: str, chance: random.Random) -> bytes:
    """An input of the reader with some parts and bytes changed."""
    reader, seed = READERS[name], chance.choice(seeds_of(name))
    data = mutated_lines(chance, seed.split(b"\n")) if isinstance(seed, bytes) else mutated_document(seed, chance)
    whole = bytearray(reader.encode(data))
    for _ in range(chance.choice([0, 0, 0, 1, 3]) if whole else 0):
        whole[chance.randrange(len(whole))] = chance.randrange(256)
    return bytes(whole)


def fault_of(name: str, data: bytes) -> str | None:
    """What is wrong with how the reader takes these bytes; None where it reads or refuses them as it should."""
    reader, begun = READERS[name], time.process_time()  # of a processor: a busy machine has nothing to do with it
    try:
        reader.read(data)
    except reader.refuses as error:
        if not str(error).strip():
            return f"{type(error).__name__} without a word"
        if isinstance(error, UsageError) and "\n" in str(error):
            return f"more than one line: {error}"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
    seconds = time.process_time() - begun
    return f"it took {seconds:.1f} s" if seconds > SLOWEST_SECONDS else None


def main() -> int:
    """Feed the readers and count; a fault is written out with its input and ends with 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", default="", help="what the names of the readers begin with")
    arguments = parser.parse_args()
    faults = 0
    for name in (name for name in READERS if name.startswith(arguments.of)):
        chance, begun, found = random.Random(arguments.seed), time.perf_counter(), Counter[str]()
        for number in range(arguments.count):
            data = HOSTILE[number] if number < len(HOSTILE) else damaged(name, chance)
            fault = fault_of(name, data)
            if fault is not None and not found[fault]:
                print(f"{name} {number}: {fault}\n  {data[:200]!r}", file=sys.stderr)
            found.update([fault] if fault else [])
        faults += found.total()
        print(f"{name}: {arguments.count} inputs in {time.perf_counter() - begun:.1f} s, {found.total()} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
