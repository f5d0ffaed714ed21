"""``python -m tests.measurements.shaped`` (root): does raybench measure the rate that a link is known to have?

Two nodes of the lab, one link held to a rate with tbf. TCP carries 1448 of the 1514 bytes that tbf counts for a packet
at MTU 1500, and with two ranks all_reduce sends each byte of the message once each way (bus factor 1), so
busbw should be 1448/1514 of the rate.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from tests.lab.cluster import Lab, parse_rate
from tests.lab.requirement import lab_available
from tests.measurements.process import LaunchError, QuietMachine, end_on_sigterm, raybench
from tests.measurements.table import print_table, write_json

_PAYLOAD = 1448 / 1514
_LIMIT = 0.10


def main() -> int:
    """Measure, print, write. Returns 1 where a figure is more than 10 % off, 2 where there is no lab."""
    end_on_sigterm()
    options = _options()
    reason = lab_available()
    if reason is not None:
        print(f"shaped: {reason}", file=sys.stderr)
        return 2
    machine = QuietMachine(options.lock)
    points = []
    with machine.held(), Lab(nodes=2) as lab:
        lab.start_ray()
        for rate in options.rates.split(","):
            lab.shape(lab.nodes[1], rate)
            points += [_point(lab, rate, size, options.launches) for size in options.sizes.split(",")]
    rows = [
        [
            point["rate"],
            point["size"],
            f"{point['expected'] * 1e3:.2f}",
            f"{point['busbw'] * 1e3:.2f}",
            f"{point['ratio']:.3f}",
            f"{min(point['ratios']):.3f} to {max(point['ratios']):.3f}",
        ]
        for point in points
    ]
    header = ["rate", "size", "expected MB/s", "busbw MB/s", "ratio", f"over {options.launches} launches"]
    print_table("all_reduce over a shaped link, 2 ranks (limit: within 10 %)", header, rows)
    write_json(options.output, "shaped", {"points": points})
    return int(any(abs(point["ratio"] - 1) > _LIMIT for point in points))


def _point(lab: Lab, rate: str, size: str, launches: int) -> dict[str, Any]:
    output = lab.folder.shared / f"shaped-{rate}-{size}"
    command = [*raybench(), "run", "--nodes=2", "--address", lab.ray_address, "--suite=all_reduce"]
    command += [f"--sizes={size}", "--backend=gloo", "--quiet", "--iters=4", f"--repeats={launches}"]
    done = lab.nodes[0].run([*command, f"--output-dir={output}"], timeout=300)
    if done.returncode:
        raise LaunchError(
            f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    (path,) = output.glob("*/result.json")
    (point,) = json.loads(path.read_text())["benchmarks"][0]["points"]
    medians = point.get("repeats", {}).get("medians_seconds") or [point["seconds"]["median"]]
    expected = parse_rate(rate) / 8 * _PAYLOAD / 1e9
    ratios = [point["message_bytes"] / seconds / 1e9 / expected for seconds in medians]
    return {
        "rate": rate,
        "size": size,
        "expected": expected,
        "busbw": statistics.median(ratios) * expected,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "verified": point["verified"],
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.measurements.shaped", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rates", default="200mbit,1gbit", help="as tc writes them")
    parser.add_argument("--sizes", default="4M,16M")
    parser.add_argument("--launches", type=int, default=5, help="launches of fresh ranks a point")
    parser.add_argument("--quick", action="store_true", help="one launch a point")
    parser.add_argument("--lock", type=Path, help="file whose lock is held while measuring")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    if options.quick:
        options.launches = 1
    return options


if __name__ == "__main__":
    sys.exit(main())
