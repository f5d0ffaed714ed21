"""``python -m tests.cli.published_plans``: what raybench plan says beside what was published of the same way.

The rows of ``tests/cli/published_plans.csv``, each with the plan's bounds, whether the published figure is inside, and
the way that the plan has first. ``--json`` writes them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from raybench.documents.training_plan import TrainingWay
from tests.cli.test_plan_published import ROWS, bounds, planned
from tests.measurements.table import print_table, write_json


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a published figure is outside its plan's bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows, outside = [], 0
    for row in ROWS:
        low, high = bounds(row)
        inside = low <= float(row["lowest"]) <= float(row["highest"]) <= high
        outside += not inside
        published = " to ".join(dict.fromkeys((row["lowest"], row["highest"])))
        first = TrainingWay(**planned(row["model"], row["options"])["ways"][0]).name
        says = f"{low:.3g} to {high:.3g}" if high < 1 else f"{low:,.0f} to {high:,.0f}"
        told = [row["model"], row["options"], row["figure"], published, says]
        rows.append([*told, "inside" if inside else "OUTSIDE", first])
    header = ["model", "options of raybench plan", "figure", "published", "plan", "", "first way of the plan"]
    print_table("Plans beside published runs", header, rows)
    write_json(options.json, "plans", {"rows": rows})
    return int(outside > 0)


if __name__ == "__main__":
    sys.exit(main())
