"""The operating system, the CPUs, and whether the host answers at all."""

from raybench.preflight.host_view import HostView, count_in
from raybench.preflight.parsers.system import parse_pairs
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

_SUPPORTED = {"debian", "ubuntu", "rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn", "sles"}


def probe(view: HostView) -> Judgement:
    """A program that hangs is a finding of its own: a hung nvidia-smi is a driver or GPU that does."""
    hung = {name: reading for name, reading in view.readings.items() if reading.get("status") == "timeout"}
    if not hung:
        return passed(f"all probes ended, in {view.facts.get('seconds')} s", "every probe ends in time")
    names = ", ".join(sorted(hung))
    smi = any(name.startswith("nvidia_smi") for name in hung)
    return failed(
        f"timed out: {names}",
        "every probe ends in time",
        "a probe that does not end hangs in a driver or a device",
        "look for Xids in dmesg and for processes in state D, drain the host and reset its GPUs or reboot it"
        if smi
        else "run the program by hand and look at dmesg",
    )


def operating_system(view: HostView) -> Judgement:
    """Debian and Ubuntu, RHEL and its relatives are what the other playbooks configure."""
    pairs = parse_pairs(view.file("os_release", "/etc/os-release") or "")
    if not pairs:
        return unknown("/etc/os-release cannot be read")
    names = {pairs.get("ID", ""), *pairs.get("ID_LIKE", "").split()}
    seen = pairs.get("PRETTY_NAME", pairs.get("ID", ""))
    if names & _SUPPORTED:
        return passed(seen, "Debian, Ubuntu, RHEL or a relative")
    return warned(
        seen,
        "Debian, Ubuntu, RHEL or a relative",
        "what raybench configure knows",
        "checks work, raybench configure may not",
    )


def kernel(view: HostView) -> Judgement:
    """The running kernel, against the inventory's where it names one."""
    release = str(view.value("kernel_release"))
    wanted = view.expected.kernel
    if wanted is None or release == wanted:
        return passed(release, wanted or "the same on all hosts")
    return failed(release, wanted, "preflight_kernel", "install that kernel and reboot, or correct the inventory")


def governor(view: HostView) -> Judgement:
    """A CPU that clocks down adds latency to every message that it handles."""
    values = view.files("kernel", "*/scaling_governor")
    if not values:
        return skipped("no CPU frequency scaling here, as in most virtual machines")
    wanted = view.expected.governor
    others = sorted({str(value) for value in values.values() if value != wanted})
    if not others:
        return passed(f"{wanted} on {len(values)} CPUs", wanted)
    count = sum(value != wanted for value in values.values())
    return warned(
        f"{', '.join(others)} on {count} of {len(values)} CPUs",
        wanted,
        "latency of small messages; OCI, scitix and gcm ask for it",
        f"cpupower frequency-set -g {wanted}, or raybench configure --tags cpu_governor",
    )


def numa_balancing(view: HostView) -> Judgement:
    """The kernel moving pages between NUMA nodes stalls GPU work and breaks no pinned page."""
    value = view.file("proc", "/proc/sys/kernel/numa_balancing")
    if value is None:
        return skipped("the kernel has no NUMA balancing")
    nodes = view.file("kernel", "/sys/devices/system/node/online") or "0"
    if value == "0" or nodes == "0":
        return passed(f"numa_balancing {value}, nodes {nodes}", "0")
    return warned(
        f"numa_balancing {value}, nodes {nodes}",
        "0",
        "page migration stalls kernels; vendors' tuning guides switch it off",
        "sysctl kernel.numa_balancing=0, or raybench configure --tags numa_balancing",
    )


def hugepages(view: HostView) -> Judgement:
    """Large allocations want huge pages: ``never`` costs time in page faults and registrations."""
    text = view.file("kernel", "/sys/kernel/mm/transparent_hugepage/enabled")
    if text is None:
        return skipped("the kernel has no transparent huge pages")
    chosen = text.partition("[")[2].partition("]")[0]
    if chosen in {"always", "madvise"}:
        return passed(chosen, "always or madvise")
    return warned(
        chosen or text,
        "always or madvise",
        "memory registration in small pages is slow",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    )


def uninterruptible(view: HostView) -> Judgement:
    """Processes seen twice in state D: something below them, storage or a driver, does not answer."""
    stuck = view.value("uninterruptible")
    if not stuck:
        return passed("none", "none in state D")
    names = ", ".join(f"{name} ({pid})" for pid, name in stuck[:5])
    return warned(
        f"{len(stuck)}: {names}",
        "none in state D",
        "seen twice within 0.1 s",
        "if it stays so, read /proc/PID/stack and check the storage that they wait for",
    )


def memory_errors(view: HostView) -> Judgement:
    """EDAC's counters of errors that the host's memory corrected or could not."""
    if not view.files("kernel", "*/ce_count"):
        return skipped("no EDAC driver is loaded")
    bad, corrected = (
        sum(count_in(text, path) for path, text in view.files("kernel", f"*/{name}").items() if text)
        for name in ("ue_count", "ce_count")
    )
    seen = f"{bad} uncorrected, {corrected} corrected"
    if bad:
        return failed(seen, "0 uncorrected", "EDAC", "drain the host and replace the module that EDAC names")
    if corrected > 1000:
        return warned(
            seen, "few corrected", "EDAC since boot", "find the module in ras-mc-ctl --error-count; replace it soon"
        )
    return passed(seen, "0 uncorrected")
