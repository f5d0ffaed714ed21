"""docs/gpu.md, from the table of steps, the markers and the records."""

from collections.abc import Iterator, Mapping

from tests.gpu.paths import NO_STEP, GpuPath, paths_of, sources
from tests.gpu.record import Record
from tests.gpu.table import LONGEST_SECONDS, STEPS

_HEAD = """# What is proved on a GPU

Written by `make gpu-paths` from the table of steps (`tests/gpu/table.py`), the markers `# gpu: STEP` in the code, and
the records in `tests/gpu/records/`. README and docs quote a figure of a GPU only where a record has it.

`make gpu-proof` does the steps on this machine's GPU, each in a process of its own and within its limit, and keeps its
result before the next begins; called again, it does those that are left. One GPU is enough: ranks share it, each as a
host of its own. `make gpu-proof-dry` goes through the same steps in the same order on a CPU, over gloo; its record is
labelled "dry run, no GPU" and proves nothing. On a machine without internet, `make gpu-pack` makes pieces of the wheels
that it lacks, and `tests/gpu/install.py` puts them together there.

The exit code is 0 when every step passed, 1 when one failed, 3 when some are not proved: no time was left, or the
machine lacks what they need. A step that failed is done again once the code is another, or with `--again`.

## On a machine that is lent for minutes

For a machine without internet, on which a call ends after ten minutes; what it is sent is the checkout and one piece.

1. Before it is asked for: `make gpu-pack PACK="--python 3.12 --present present.txt"`. `present.txt` has what
   `python3 tests/gpu/install.py --needs` prints there, or only the names of packages that it is known to have; without
   it all is packed. Exit code 1: a package has no wheel for that Python, and is named.
2. A call for each piece but the last: send `.whl/piece-1`, run `python3 tests/gpu/install.py .whl/piece-1`. Exit code
   3: more pieces have to come; 2: they are for another Python; 1: the named wheel is damaged, send its pieces again.
3. A call with the last piece, which also begins the proof:
   `python3 tests/gpu/install.py .whl/piece-3 && PYTHONPATH=/tmp/raybench-gpu/site python3 -m tests.gpu --seconds 480`
4. After each call bring `tests/gpu/records/*.json` back into the checkout, and `runs/gpu-proof-logs/` where a step
   failed. The record goes with the next call, and the proof goes on from it, also on another machine of the same kind.
5. `PYTHONPATH=/tmp/raybench-gpu/site python3 -m tests.gpu --seconds 570` until it leaves nothing (`left for the next
   call`). A new machine needs the pieces again.
6. `make gpu-paths`, and commit the record with `docs/gpu.md`.

`nccl-tests` is built there from its sources: send them along, and name their folder with `--nccl-tests`.
"""


def document(records: Mapping[str, Record]) -> str:
    """The text; ``records`` are of GPUs."""
    found = [path for file, text in sources() for path in paths_of(file, text)]
    return "\n".join([_HEAD, *_steps(records), "", *_paths(found, records), ""])


def _steps(records: Mapping[str, Record]) -> Iterator[str]:
    total = sum(step.seconds for step in STEPS)
    yield f"## Steps\n\n{len(STEPS)} steps, at most {total} of {LONGEST_SECONDS} s.\n"
    yield "| step | what it proves | compared | limit | proved by |"
    yield "|---|---|---|---|---|"
    for step in STEPS:
        proofs = sorted(name for name, record in records.items() if record.proves(step.id))
        yield f"| `{step.id}` | {step.proves} | {step.compared} | {step.seconds} s | {_listed(proofs)} |"


def _listed(proofs: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in proofs) or "nothing yet"


def _paths(found: list[GpuPath], records: Mapping[str, Record]) -> Iterator[str]:
    left = sum(not path.proofs(records) for path in found)
    yield f"## Paths\n\n{len(found)} paths that only a GPU reaches; of {left} no record shows that they ran on one.\n"
    yield "| path | steps | proved by |"
    yield "|---|---|---|"
    rows = {(path.file, path.name, path.steps): path.proofs(records) for path in found}
    for (file, name, steps), proofs in rows.items():
        yield f"| `{file}` `{name}` | {', '.join(steps)} | {_listed(proofs)} |"
    yield "\nNo step runs these:\n"
    for name, reason in NO_STEP.items():
        yield f"- {name}: {reason}"
