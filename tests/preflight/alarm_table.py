"""All alarms in one table: ``python -m tests.preflight.alarm_table`` prints it, and ends with 1 where one is wrong."""

from .alarm_amd_cases import AMD_CASES
from .alarm_cases import NVIDIA_SMI, AlarmCase, seen
from .alarm_log_cases import LOG_CASES
from .alarm_nic_cases import NIC_CASES

ALARM_CASES: tuple[AlarmCase, ...] = (*NVIDIA_SMI, *LOG_CASES, *NIC_CASES, *AMD_CASES)


def wrong(case: AlarmCase) -> str:
    """What is not as the case says; empty where all is."""
    fired, silent = seen(case)
    faults = [f"{fired.verdict}, not {case.verdict}: {fired.seen}"] * (fired.verdict != case.verdict)
    faults += [f"{case.says!r} is not in {fired.seen!r}"] * (case.says not in fired.seen)
    faults += [f"{case.does!r} is not in {fired.advice!r}"] * (case.does not in fired.advice)
    faults += [f"the near miss is {silent.verdict}, not {case.quiet}: {silent.seen}"] * (silent.verdict != case.quiet)
    return "; ".join(faults)


def main() -> int:
    """The table, and how many are right."""
    faults = {case.name: wrong(case) for case in ALARM_CASES}
    for case in ALARM_CASES:
        fired, silent = seen(case)
        mark = "WRONG" if faults[case.name] else "right"
        print(f"{mark}  {case.check:<18} {case.name:<48} {fired.verdict:<5} near {silent.verdict:<8} {fired.seen[:90]}")
        if faults[case.name]:
            print(f"       {faults[case.name]}")
    right = sum(not fault for fault in faults.values())
    print(f"{right} of {len(faults)} alarms right, near misses silent")
    return int(right != len(faults))


if __name__ == "__main__":
    raise SystemExit(main())
