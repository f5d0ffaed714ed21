"""--expect NAME=VALUE: what arrives is what was typed, as the type that the variable is declared with."""

from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.preflight.expectations import read_expectations
from raybench.services.preflight_expectations import expectations_from


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("kernel=6.10", "6.10"), ('kernel="6.10"', "6.10"), ("kernel='6.10'", "6.10"), ("kernel=0755", "0755"),
        ("gpu_driver=570", "570"), ("gpu_driver=1e3", "1e3"), ("governor=on", "on"), ("group=no", "no"),
        ("group=null", "null"), ("group=2026-01-01", "2026-01-01"), ("group=1:30", "1:30"), ("group=~", "~"),
        ("group=a=b", "a=b"), ("group={a: b}", "{a: b}"), ("group={{ 7*7 }}", "{{ 7*7 }}"), ('group="', '"'),
        ("gpu_count=8", 8), ("gpu_count=08", 8), ("gpu_count=", None), ("sharp=on", True), ("gpu_mig=no", False),
        ("log_hours=1e1", 10.0), ("memlock_min_gib=0.5", 0.5), ("xid_ignored=13,31", [13, 31]),
        ("xid_ignored=13", [13]),
        ("xid_ignored=[13, 31]", [13, 31]), ("mtu_interfaces=[no, on]", ["no", "on"]),
        ("drift_ignored=6.10", ["6.10"]),
        ("versions={torch: 2.10, ray: 1e3}", {"torch": "2.10", "ray": "1e3"}),
        ("port_types={MT4129: {firmware: 28.10, rate_gbits: 400}}",
         {"MT4129": {"firmware": "28.10", "rate_gbits": 400.0}}),
        ("gpu-types={H100: {nvlinks: 018}}", {"H100": {"nvlinks": 18}}),
    ],
)  # fmt: skip
def test_a_value_is_of_the_type_of_its_variable(typed: str, value: Any) -> None:
    (found,) = expectations_from((typed,)).values()
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "typed",
    ["gpu_count=many", "gpu_count=8.5", "gpu_count=true", "gpu_count=1:30", "log_hours=nan", "sharp=2", "versions=2.10",
     "versions=[a", "xid_ignored=a", "port_types={MT4129: {speed: 4}}", "nosuch=1", "kernel"],
)  # fmt: skip
def test_what_is_of_another_type_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match=r"--expect '"):
        expectations_from((typed,))


@pytest.mark.parametrize("typed", ["gpu_cuont=8", "gpu-count 8", "GPU_COUNT=8"])
def test_the_name_that_was_meant_is_said(typed: str) -> None:
    with pytest.raises(UsageError, match=r"did you mean 'gpu_count'\?"):
        expectations_from((typed,))


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"preflight_kernel": 6.1}, "quotes"),
        ({"preflight_versions": {"torch": 2.1}}, "quotes"),
        ({"preflight_mtu_interfaces": [True]}, "quotes"),
        ({"preflight_gpu_count": 8.5}, "no int"),
        ({"preflight_xid_ignored": True}, "no list"),
    ],
)
def test_an_inventory_that_lost_what_was_typed_is_said(variables: dict[str, object], told: str) -> None:
    (problem,) = read_expectations(variables)[1]
    assert told in problem


def test_whole_numbers_are_text_where_text_is_wanted() -> None:
    expected, problems = read_expectations({"preflight_gpu_driver": 570, "preflight_versions": {"torch": 2}})
    assert (problems, expected.gpu_driver, expected.versions) == ((), "570", {"torch": "2"})
