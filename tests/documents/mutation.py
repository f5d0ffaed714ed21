"""Documents with damaged parts and bytes, and what the loader makes of them: a clear error, or a load that can be used.

``python -m tests.documents.mutation --count 10000 --seed 1 --of fabric``
"""

import argparse
import collections
import copy
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from raybench.documents.loading import document_in
from raybench.documents.reading import DocumentError, json_of
from tests.documents.shown import shown

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.json"))  # results of runs
REPORTS = sorted((Path(__file__).parent / "samples" / "reports").glob("*.json"))  # every other document
LONGEST_SECONDS = [0.0]  # that one document took to be read, whatever came of it
_STRANGE = [
    None,
    True,
    -1,
    0,
    2,
    10**30,
    1e308,
    5e-324,
    0.5,
    "",
    "text",
    "x\x1b[2J",
    [],
    {},
    [[]],
    {"a": 1},
    [1e308] * 3,
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every part below a JSON value, as its owner and its key."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(part, dict | list):
            yield from places(part)


def mutated(document: Any, chance: random.Random) -> bytes:
    """The document with other values, fewer or repeated parts, then other bytes, or cut off."""
    changed = msgspec.json.decode(msgspec.json.encode(document))  # a tenth of what copy.deepcopy takes
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4])):
        everywhere = list(places(changed))
        if not everywhere:
            break
        owner, key = chance.choice(everywhere)
        how = chance.random()
        if how < 0.25:
            del owner[key]
        elif how < 0.35 and isinstance(owner, list):
            owner.append(copy.deepcopy(owner[key]))
        else:
            owner[key] = copy.deepcopy(chance.choice(_STRANGE))
    data = bytearray(json.dumps(changed).encode())
    for _ in range(chance.choice([0, 0, 0, 1, 3])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data[: chance.randrange(len(data))] if chance.random() < 0.1 else data)


def outcome(data: bytes) -> str:
    """``refused`` with one line, or ``loaded``, and all of it can be derived. Raises whatever else there is."""
    begun = time.perf_counter()
    try:
        document = document_in(json_of(data, "it"), "it")
    except DocumentError as error:
        if "\n" in str(error) or error.exit_code != 2:
            raise AssertionError(f"no clear error: {error}") from error
        return "refused"
    finally:
        LONGEST_SECONDS[0] = max(LONGEST_SECONDS[0], time.perf_counter() - begun)
    again = document_in(json.loads(msgspec.json.encode(document.to_json())), "it")
    assert msgspec.json.encode(again.to_json()) == msgspec.json.encode(document.to_json())
    shown(document)
    return "loaded"


def main() -> int:
    """Count outcomes; a document that raises anything else is written to standard error and ends with 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--of", default="", help="what the names of the samples begin with")
    arguments = parser.parse_args()
    chance, begun = random.Random(arguments.seed), time.perf_counter()
    samples = [path for path in (*SAMPLES, *REPORTS) if path.name.startswith(arguments.of)]
    documents = [json.loads(path.read_bytes()) for path in samples]
    counted: collections.Counter[str] = collections.Counter()
    for number in range(arguments.count):
        data = mutated(documents[number % len(documents)], chance)
        try:
            counted[outcome(data)] += 1
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            counted["failed"] += 1
            print(f"{samples[number % len(documents)].name} {number}: {type(error).__name__}: {error}", file=sys.stderr)
    taken = f"{time.perf_counter() - begun:.1f} s, the longest read {LONGEST_SECONDS[0] * 1e3:.0f} ms"
    print(f"{arguments.count} documents in {taken}: {dict(counted)}")
    return 1 if counted["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
