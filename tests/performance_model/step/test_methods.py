"""docs/methods.md has the constants of the step time as the code has them, and counts published rows as they are."""

import re
from pathlib import Path

import pytest

from raybench.performance_model.step.efficiency import CALIBRATION
from raybench.performance_model.step.spreads import SPREADS
from tests.performance_model.published_runs import all_runs

TEXT = (Path(__file__).parents[3] / "docs/methods.md").read_text()


def rows(heading: str) -> dict[str, list[str]]:
    """Cells behind the first of each row of the first table below a heading, by the first up to its comma or colon."""
    table = TEXT.split(f"\n### {heading}\n")[1].split("\n|", 1)[1].split("\n\n", 1)[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {re.split("[,:]", name)[0]: rest for name, *rest in cells}


def test_the_classes_of_the_methods_are_those_of_the_code() -> None:
    said = {name: [float(factor) for factor in factors] for name, factors in rows("Bounds of the step time").items()}
    assert said == {name: pytest.approx([one.slow, one.fast], abs=0.006) for name, one in SPREADS.items()}


def test_the_fitted_constants_of_the_methods_are_those_of_the_code() -> None:
    said = {name: re.findall(r"(?<!\w)\d+(?:\.\d+)?", cells[-1]) for name, cells in rows("Step time").items()}
    fit = CALIBRATION
    assert [float(number) for numbers in said.values() for number in numbers] == pytest.approx(
        [
            *(1 / fit.products, 1, fit.half_hidden),
            *(1 / fit.attention, fit.elements, fit.separate, fit.logits, fit.adapters, fit.packed, fit.gptq),
        ],
        rel=0.03,
    )
    assert f"{1e3 * fit.block_seconds:.1f} ms per block" in TEXT
    assert f"{1e3 * fit.adapter_seconds:.2f} ms per adapted layer" in TEXT


def test_the_methods_count_the_published_rows_as_they_are() -> None:
    runs = all_runs()
    timed = [run.source for run in runs if run.tokens_per_second]
    sized = [run.source for run in runs if run.memory_bytes]
    failed = sum(run.fits is False for run in runs)
    assert f"On {len(timed)} published step times of {len(set(timed))} sources" in TEXT
    assert f"Published figures, {len(sized)} of {len(set(sized))} sources" in TEXT
    assert f"of {failed} runs that ran out of memory" in TEXT
    assert f"of {sum(run.fits is True for run in runs)} that ran none" in TEXT
