"""What figures of node tests mean: who is slower than its peers, whose results are wrong, and what cannot be told."""

from dataclasses import replace
from typing import Any

import pytest

from raybench.preflight.node_tests.answer import NodeTests, read_answer
from raybench.preflight.node_tests.judgement import judge
from raybench.preflight.node_tests.plan import CHECKS, chosen_checks, plan_for
from tests.preflight.node_tests.answers import FLAT, figure, host_tests, load, packed

SLOW = tuple(0.5 * one for one in FLAT)


def verdicts(tests: dict[str, NodeTests], check: str) -> dict[str, str]:
    found = judge(tests, {}, CHECKS)
    return {host: next(one.verdict for one in results if one.check == check) for host, results in found.items()}


def six(test: str = "gemm-speed", **odd: tuple[float, ...]) -> dict[str, NodeTests]:
    return {f"n{one}": host_tests(*load(), figure(test, odd.get(f"n{one}", FLAT))) for one in range(1, 7)}


def test_a_slow_gpu_is_found_among_six_and_nobody_else() -> None:
    assert verdicts(six(n3=SLOW), "test-gemm-speed") == {
        f"n{one}": "fail" if one == 3 else "pass" for one in range(1, 7)
    }


def test_a_little_slower_warns_and_as_slow_as_the_others_differ_passes() -> None:
    assert verdicts(six(n3=tuple(0.9 * one for one in FLAT)), "test-gemm-speed")["n3"] == "warn"
    assert verdicts(six(n3=tuple(0.96 * one for one in FLAT)), "test-gemm-speed")["n3"] == "pass"


def test_one_good_part_of_the_samples_is_too_noisy_to_tell() -> None:
    assert verdicts(six(n3=(0.5, 0.5, 0.5, 1.0, 1.0)), "test-gemm-speed")["n3"] == "unknown"


def test_peers_that_are_too_far_apart_tell_nothing() -> None:
    apart = {f"n{one}": tuple(0.3 * one * sample for sample in FLAT) for one in range(1, 7)}
    assert set(verdicts(six(**apart), "test-gemm-speed").values()) == {"unknown"}


def test_of_two_the_slower_one_is_only_warned_about_and_of_one_nothing_is_known() -> None:
    pair = {
        "n1": host_tests(*load(), figure("gemm-speed", SLOW)),
        "n2": host_tests(*load(), figure("gemm-speed", FLAT)),
    }
    assert verdicts(pair, "test-gemm-speed") == {"n1": "warn", "n2": "pass"}
    assert verdicts({"n1": pair["n1"]}, "test-gemm-speed") == {"n1": "unknown"}


@pytest.mark.parametrize("different", [{"model": "A100"}, {"setting": "4096"}, {"case": "fp16"}])
def test_what_differs_is_no_peer(different: dict[str, str]) -> None:
    tests = six() | {"n9": host_tests(*load(), figure("gemm-speed", SLOW, **different))}
    assert verdicts(tests, "test-gemm-speed")["n9"] == "unknown"


@pytest.mark.parametrize("test", ["gemm-exact", "gemm-repeat"])
def test_a_single_wrong_element_fails_and_is_named(test: str) -> None:
    tests = {
        f"n{one}": host_tests(
            *load(), figure(test, checked=100, wrong=int(one == 2)), figure(test, device="gpu1", checked=9)
        )
        for one in (1, 2)
    }
    assert verdicts(tests, f"test-{test}") == {"n1": "pass", "n2": "fail"}
    result = next(one for one in judge(tests, {}, CHECKS)["n2"] if one.check == f"test-{test}")
    assert result.seen == "gpu0 bf16: 1 of 100 elements are wrong"
    assert "drain" in result.advice


def test_nothing_compared_is_no_pass() -> None:
    tests = {"n1": host_tests(*load(), figure("gemm-exact"))}
    assert verdicts(tests, "test-gemm-exact") == {"n1": "unknown"}


@pytest.mark.parametrize(
    ("status", "verdict"), [("skipped", "skipped"), ("missing", "unknown"), ("failed", "fail"), ("broken", "error")]
)
def test_each_status_has_its_verdict(status: str, verdict: str) -> None:
    tests = {"n1": host_tests(*load(), figure("gemm-exact", status=status, reason="as it was"))}
    assert verdicts(tests, "test-gemm-exact") == {"n1": verdict}


def test_a_host_without_torch_is_unknown_and_told_how_to_get_it() -> None:
    tests = {
        "n1": host_tests(
            *load(), figure("gemm", device="host", status="missing", reason="no torch"), why_no_torch="none"
        )
    }
    found = {one.check: one for one in judge(tests, {}, CHECKS)["n1"]}
    assert {found[name].verdict for name in ("test-run", "test-gemm-exact", "test-gemm-speed")} == {"unknown"}
    assert "raybench cluster up" in found["test-run"].advice
    assert found["test-load"].verdict == "pass"


def test_tests_that_did_not_end_fail_and_those_that_broke_are_an_error() -> None:
    late = host_tests({"begun": "gemm"}, problem="timeout")
    found = {one.check: one for one in judge({"n1": late}, {}, CHECKS)["n1"]}
    assert (found["test-run"].verdict, found["test-gemm-exact"].verdict) == ("fail", "unknown")
    assert "in the test gemm" in found["test-run"].seen
    assert verdicts({"n1": host_tests(problem="it ended with status -11")}, "test-run") == {"n1": "error"}


def test_tests_that_never_began_or_of_a_shared_machine_are_unknown_when_they_are_late() -> None:
    assert verdicts({"n1": host_tests(problem="timeout")}, "test-run") == {"n1": "unknown"}
    late = {name: host_tests({"begun": "gemm"}, problem="timeout", machine="m") for name in ("n1", "n2")}
    assert verdicts(late, "test-run") == {"n1": "unknown", "n2": "unknown"}
    own = {name: host_tests({"begun": "gemm"}, problem="timeout", machine=name) for name in ("n1", "n2")}
    assert verdicts(own, "test-run") == {"n1": "fail", "n2": "fail"}


def test_a_hog_and_a_quota_are_found_and_named() -> None:
    found = judge(
        {"n1": host_tests(*load(node=2.0)), "n2": host_tests(*load(held_back=0.6)), "n3": host_tests(*load())},
        {},
        CHECKS,
    )
    loads = {host: next(one for one in results if one.check == "test-load") for host, results in found.items()}
    assert {host: one.verdict for host, one in loads.items()} == {"n1": "fail", "n2": "fail", "n3": "pass"}
    assert "burner (4711)" in loads["n1"].seen
    assert "quota" in loads["n2"].seen


def test_a_hog_that_gets_little_of_a_full_machine_is_found_too() -> None:
    assert verdicts({"n1": host_tests(*load(own=0.4, node=0.3, outside=7.3, idle=0.0))}, "test-load") == {"n1": "fail"}
    assert verdicts({"n1": host_tests(*load(own=1.0, node=0.3, idle=6.7))}, "test-load") == {"n1": "pass"}


def test_nodes_of_one_machine_are_not_blamed_for_what_is_outside_them() -> None:
    cpu = {"device": "cpu", "model": "EPYC", "case": "fp32"}
    tests = {
        f"n{one}": host_tests(
            *load(outside=3.0), figure("processor", SLOW if one == 1 else FLAT, **cpu), machine="m", space=str(one)
        )
        for one in range(1, 5)
    }
    assert verdicts(tests, "test-processor")["n1"] == "unknown"
    alone = {
        f"n{one}": host_tests(
            *load(outside=0.0), figure("processor", SLOW if one == 1 else FLAT, **cpu), machine="m", space=str(one)
        )
        for one in range(1, 5)
    }
    assert verdicts(alone, "test-processor")["n1"] == "fail"


def test_speed_of_a_shared_cpu_is_skipped_and_processes_that_others_see_accuse_nobody() -> None:
    cpu = figure("gemm-speed", SLOW, device="cpu")
    tests = {name: host_tests(*load(node=4.0), cpu, machine="m", space="same") for name in ("n1", "n2")}
    assert set(verdicts(tests, "test-gemm-speed").values()) == {"skipped"}
    assert set(verdicts(tests, "test-load").values()) == {"unknown"}


@pytest.mark.parametrize(
    "damaged",
    [
        "no base64!",
        packed(figure("gemm-speed", FLAT))[:-9],
        packed({"figure": {"test": "gemm-speed", "samples": [float("inf")]}}),
        packed({"figure": {"test": "gemm-speed", "wrong": -1}}),
        packed({"figure": {"test": "gemm-speed", "status": "fine"}}),
        packed({"figure": {"test": "gemm-speed", "new": 1}}),
        packed({"figure": {"test": "load", "case": "node"}}),
        packed(problem=7),
    ],
)
def test_a_damaged_answer_is_an_error_of_its_host_alone(damaged: str) -> None:
    tests = six() | {"n9": read_answer(damaged, "")}
    assert verdicts(tests, "test-run") == {f"n{one}": "pass" for one in range(1, 7)} | {"n9": "error"}


def test_levels_choose_tests_and_names_choose_among_them() -> None:
    assert chosen_checks(1, (), ()) == ()
    assert plan_for(2, only=["test-gemm-exact"])["tests"] == ["gemm"]
    assert plan_for(2, only=["gpu"])["tests"] == []
    assert "gemm" not in plan_for(2, skip=["test-gemm-exact", "test-gemm-repeat", "test-gemm-speed"])["tests"]
    for wrong in ({"level": 4}, {"level": 2, "sizes": {"width": 1}}):
        with pytest.raises(ValueError, match="there is no"):
            plan_for(**wrong)


def state(device: str, **cases: tuple[float, ...]) -> list[dict[str, Any]]:
    return [figure("burn-state", samples, device=device, case=case) for case, samples in cases.items()]


COOL = {"temperature_celsius": (60.0, 61.0, 62.0), "throttle_thermal": (0.0,), "throttle_power_cap": (1.0,)}


@pytest.mark.parametrize(
    ("odd", "verdict", "says"),
    [
        ({}, "pass", ""),
        ({"throttle_thermal": (0.5,)}, "fail", "too hot for 50% of the time"),
        ({"throttle_hardware": (0.1,)}, "warn", "a slowdown of the hardware for 10% of the time"),
        ({"throttle_thermal": (0.01,)}, "pass", ""),
        ({"temperature_celsius": (80.0, 81.0, 82.0)}, "warn", "82 C"),
        ({"temperature_celsius": (70.0, 71.0, 72.0)}, "pass", ""),
    ],
)
def test_a_gpu_that_is_held_down_or_hotter_than_its_peers_is_told(
    odd: dict[str, tuple[float, ...]], verdict: str, says: str
) -> None:
    tests = {
        f"n{one}": host_tests(*load(), *state("gpu0", **(COOL | (odd if one == 2 else {})))) for one in range(1, 5)
    }
    assert verdicts(tests, "test-burn-state") == {f"n{one}": verdict if one == 2 else "pass" for one in range(1, 5)}
    found = next(one for one in judge(tests, {}, CHECKS)["n2"] if one.check == "test-burn-state")
    assert says in found.seen


def test_heat_without_peers_and_a_driver_that_gives_no_reasons_are_left_open() -> None:
    hot = {"n1": host_tests(*load(), *state("gpu0", **(COOL | {"temperature_celsius": (99.0,)})))}
    assert verdicts(hot, "test-burn-state") == {"n1": "pass"}
    assert verdicts({"n1": host_tests(*load(), *state("gpu0", power_watts=(600.0,)))}, "test-burn-state") == {
        "n1": "unknown"
    }
    silent = figure("burn-state", status="missing", reason="nvidia-ml-py is not installed")
    found = judge({"n1": host_tests(*load(), silent)}, {}, CHECKS)["n1"]
    state_of = next(one for one in found if one.check == "test-burn-state")
    assert (state_of.verdict, "install nvidia-ml-py" in state_of.advice) == ("unknown", True)


@pytest.mark.parametrize(
    ("device", "test"), [("cpu", "memory-speed"), ("cpu", "loopback-speed"), ("disk", "disk-speed")]
)
def test_speed_of_what_nodes_of_one_machine_share_is_skipped_and_its_errors_are_not(device: str, test: str) -> None:
    check = f"test-{test}"
    slow = {
        f"n{one}": host_tests(*load(), figure(test, SLOW if one == 1 else FLAT, device=device), machine="m")
        for one in range(1, 7)
    }
    assert set(verdicts(slow, check).values()) == {"skipped"}
    own = {host: replace(one, machine=host) for host, one in slow.items()}
    assert verdicts(own, check) == {f"n{one}": "fail" if one == 1 else "pass" for one in range(1, 7)}
    exact = test.replace("speed", "exact")
    wrong = {"n1": host_tests(figure(exact, checked=9, wrong=1, device=device), machine="m")}
    assert verdicts(wrong | {"n2": wrong["n1"]}, f"test-{exact}") == {"n1": "fail", "n2": "fail"}


def test_level_3_asks_for_more_and_gets_more_time() -> None:
    two, three = (plan_for(level) for level in (2, 3))
    assert set(two["tests"]) < set(three["tests"])
    assert {"peer", "loopback", "disk", "diag", "burn"} == set(three["tests"]) - set(two["tests"])
    assert (two["seconds"], three["seconds"]) == (60.0, 600.0)
    assert plan_for(3, sizes={"burn_seconds": 5})["burn_seconds"] == 5
