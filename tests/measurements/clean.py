"""``python -m tests.measurements.clean``: runs and trainings in which nothing is wrong, and their warnings.

Twenty runs of four ranks each (collectives and three models in turn), and twenty agents beside a process that sleeps.
Every warning counts, of ranks and of machines. Other work on the machine is something wrong: an agent that says
who takes the processors is right, so take a machine that has none, and see who it names.
"""

import argparse
import sys
from pathlib import Path

from tests.measurements.agent_faults import watched_calm
from tests.measurements.run_faults import CLEAN, warnings_of
from tests.measurements.table import print_table, write_json


def main() -> int:
    """Run, print, write. Returns 1 where anything was warned of, or a run did not end with 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="runs, and agents")
    parser.add_argument("--agent-seconds", type=float, default=20.0)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    figures: dict[str, list[dict[str, object]]] = {}
    for number in range(options.count):
        run = CLEAN[number % len(CLEAN)]
        status, warned = warnings_of(run)
        told = [f"{one['rule']}: {one['text']}" for one in warned]
        title = " ".join(word for word in run if not word.startswith("--"))
        figures.setdefault(title, []).append({"status": status, "warnings": told})
    alone = [watched_calm(options.agent_seconds) for _ in range(options.count)]
    figures["agent alone"] = [{"status": 0, "warnings": said} for said in alone]
    rows = [
        [
            title,
            str(len(runs)),
            str(sum(one["status"] == 0 for one in runs)),
            str(sum(bool(one["warnings"]) for one in runs)),
        ]
        for title, runs in figures.items()
    ]
    print_table("nothing is wrong", ["of", "number", "exit status 0", "with a warning"], rows)
    every = [one for runs in figures.values() for one in runs]
    for text in sorted({str(text) for one in every for text in one["warnings"]}):  # type: ignore[attr-defined]
        print(f"    {text}")
    write_json(options.output, "clean", {"runs": figures})
    return int(any(one["warnings"] or one["status"] for one in every))


if __name__ == "__main__":
    sys.exit(main())
