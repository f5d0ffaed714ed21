"""Forms in which logs carry NCCL's lines: launchers, containers, log collectors, web pages, programs that quote it."""

import html
import json
import textwrap
from collections.abc import Callable, Sequence

from diagnostics.inputs.reader import Batch
from diagnostics.scanning.gate import Gate
from diagnostics.scanning.scanner import Scanner

PREFIX = "n1:4101:4141 [3] "
TIME = "2026-01-02T03:04:05.678901234Z"
XLA = "INTERNAL: NCCL operation ncclGroupEnd() failed: x. Last NCCL warning(error) log entry (may be unrelated)"
RCCL = "/long_pathname_so_that_rpms_can_package_the_debug_info/src/extlibs/rccl/build/hipify"


def warned(body: str) -> str:
    return f"{PREFIX}misc/socket.cc:50 NCCL WARN {body}"


def cut(text: str, width: int, indentation: str = "") -> list[str]:
    """A line wrapped hard, in the middle of words too."""
    rest = range(width, len(text), width - len(indentation))
    return [text[:width], *(indentation + text[place : place + width - len(indentation)] for place in rest)]


def partial(body: str) -> list[str]:
    """As containerd writes a line that is longer than its buffer."""
    text, middle = warned(body), len(warned(body)) - len(body) // 2
    return [
        f"{TIME} stderr P {text[:middle]}",
        f"{TIME} stderr F {text[middle:]}",
    ]


CARRIERS: dict[str, Callable[[str], list[str]]] = {
    "plain": lambda body: [warned(body)],
    "time stamp of 2.26": lambda body: ["[2026-01-02 03:04:05] " + warned(body)],
    "function of 2.30": lambda body: [f"{PREFIX}misc/socket.cc:50 (ncclSocket) NCCL WARN {body}"],
    "mark of 2.2": lambda body: [f"{PREFIX}misc/socket.cu:50 WARN {body}"],
    "no host": lambda body: [f"NCCL WARN {body}"],
    "device only": lambda body: [f"[3] NCCL WARN {body}"],
    "redacted process": lambda body: [f"<host>:<pid>:<tid> [0] misc/socket.cc:50 NCCL WARN {body}"],
    "no mark": lambda body: [body],
    "quoted": lambda body: [f"> {body}"],
    "last error": lambda body: ["ncclSystemError: System call failed.", "Last error:", body],
    "last error on its line": lambda body: [f"Last error: {body}"],
    "last error of a program": lambda body: [f"rank 3: last error: {body}"],
    "docker": lambda body: [json.dumps({"log": warned(body) + "\n", "stream": "stderr", "time": "2026-01-02"})],
    "container runtime": lambda body: [f"{TIME} stderr F {warned(body)}"],
    "container runtime in pieces": partial,
    "log collector": lambda body: [json.dumps({"ts": 1, "level": "error", "msg": warned(body)})],
    "syslog": lambda body: ["Jan  2 03:04:05 n1 train[123]: " + warned(body)],
    "srun": lambda body: ["8: " + warned(body)],
    "mpirun": lambda body: ["[1,8]<stderr>:" + warned(body)],
    "colours": lambda body: ["\x1b[36m(pid=1)\x1b[0m " + warned(body)],
    "colours without their escape": lambda body: [f"[0;36m(Worker_TP1 pid=1)[0;0m {warned(body)}[0m"],
    "colours spelled out": lambda body: [f"^[[36m(W pid=1)^[[0m {warned(body)}\\u001b[0m"],
    "ray": lambda body: [f"(RayTrainWorker pid=1, ip=10.0.0.1) {warned(body)} [repeated 7x across cluster] (Ray)"],
    "syslog of RFC 5424": lambda body: [f"<14>1 2026-01-02T03:04:05.678Z n1 train 123 - - {warned(body)}"],
    "journal as JSON": lambda body: [json.dumps({"PRIORITY": "3", "_HOSTNAME": "n1", "MESSAGE": warned(body)})],
    "log collector of a cluster": lambda body: [json.dumps({"log": warned(body), "kubernetes": {"pod_name": "a-0"}})],
    "kubectl with names and times": lambda body: [f"[pod/a-0/trainer] 2026-01-02T03:04:05.678901234Z {warned(body)}"],
    "cloud's console": lambda body: [f"| 2026-01-02T03:04:05.678-07:00 | {warned(body)}"],
    "numbered lines": lambda body: [f"80746 {warned(body)}"],
    "deepspeed": lambda body: [f"worker-1: {warned(body)}"],
    "torchrun": lambda body: [f"[default3]:{warned(body)}"],
    "mpirun with time": lambda body: [f"2026-01-02T03:04:05.884Z: [1,12]<stdout>:{warned(body)}"],
    "python logging": lambda body: [f"2026-01-02 03:04:05,678 - ERROR - worker - {warned(body)}"],
    "bold": lambda body: [f"**{warned(body)}**"],
    "emphasised": lambda body: [f"_{warned(body)}_"],
    "code in a list": lambda body: [f"- `{warned(body)}`"],
    "path of RCCL": lambda body: [f"{PREFIX}{RCCL}/src/misc/socket.cc:50 NCCL WARN {body}"],
    "bazel": lambda body: [f"{PREFIX}external/nccl_archive/src/misc/socket.cc:50 NCCL WARN {body}"],
    "ray in colours": lambda body: [
        f"\x1b[36m(W pid=1, ip=10.0.0.1)\x1b[0m {warned(body)}\x1b[32m [repeated 7x across cluster]"
    ],
    "wrapped at 100": lambda body: cut(warned(body), 100),
    "wrapped at 110 and indented": lambda body: cut(warned(body), 110, "    "),
    "wrapped between words": lambda body: textwrap.wrap(warned(body), 90, break_long_words=False),
    "wrapped in a quotation": lambda body: [f"> {part}" for part in cut(warned(body), 100)],
    "pieces of two streams": lambda body: [partial(body)[0], f"{TIME} stdout F step 7", partial(body)[1]],
    "journal's bytes": lambda body: [
        json.dumps({"_HOSTNAME": "n1", "MESSAGE": list(f"\x1b[36m{warned(body)}".encode())})
    ],
    "JSON in JSON": lambda body: [json.dumps({"log": json.dumps({"level": "error", "msg": warned(body)})})],
    "export of a cloud": lambda body: [json.dumps({"jsonPayload": {"message": warned(body)}, "severity": "ERROR"})],
    "key and value": lambda body: [f"level=error ts=2026-01-02 msg={json.dumps(warned(body))} pod=a"],
    "table of a log collector": lambda body: [f"2026-01-02T03:04:05Z,n1,{json.dumps(warned(body))}"],
    "saved web page": lambda body: [html.escape(warned(body))],
    "list of Python": lambda body: [repr([warned(body)])],
    "file's name by grep": lambda body: [f"logs/rank3.log:123:{warned(body)}"],
    "behind a bar": lambda body: [f" 12%|#2   | 12/100 [00:05<00:37,  2.3it/s]{warned(body)}"],
    "last error in a message of PyTorch": lambda body: [
        "[rank3]:[E218 20:27:21.426 ProcessGroupNCCL.cpp:629] [Rank 3] ncclSystemError: It failed. Last error:",
        f"[rank3]:{body}",
    ],
    "last error by XLA": lambda body: [f"{XLA} '{body}'."],
    "last error by nccl-tests": lambda body: [
        f"n1: Test NCCL failure common.cu:1024 'unhandled system error / {body}'"
    ],
    "last error by its call": lambda body: [f"ncclGetLastError: {body}"],
}
# carriers that keep no mark of NCCL's, those that quote its last warning, and those that tear a line
BARE = frozenset({"no mark", "quoted"})
QUOTING = frozenset(name for name in CARRIERS if name.startswith("last error"))
TEARING = frozenset(name for name in CARRIERS if name.startswith("wrapped"))


def missed_of(
    rows: Sequence[tuple[str, str]], carry: Callable[[str], list[str]], *, scanned: bool = False
) -> list[tuple[str, str]]:
    """Rows whose kind is not read from their own lines, all rows in one file, a line of the program between two."""
    told: dict[int, set[str]] = {}
    gate = Gate(scan_from_bytes=0 if scanned else 2**40)
    scanner = Scanner(lambda event: told.setdefault(event.origin.line, set()).add(event.kind), gate)
    lines, places = ["begin"], []
    for _, body in rows:
        carried = carry(body)
        places.append(range(len(lines) + 1, len(lines) + 1 + len(carried)))
        lines += [*carried, "step"]
    scanner.feed(Batch(file="a.log", block="\n".join(lines).encode(), first=True))
    scanner.finish()
    return [
        row for row, place in zip(rows, places, strict=True) if not any(row[0] in told.get(one, ()) for one in place)
    ]
