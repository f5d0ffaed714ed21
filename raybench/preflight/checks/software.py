"""What is installed: Python and its packages, and the RDMA stack. Whether hosts agree is judged over all, see drift."""

import json
import re
from typing import Any

from raybench.preflight.forms import by_name, record, text
from raybench.preflight.host_view import HostView, UnavailableError
from raybench.preflight.parsers.system import parse_packages
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

_VERSION = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(?![0-9])")
_FACTS = record(
    python=lambda value: text(value) and bool(_VERSION.match(value)), executable=text, packages=by_name(text)
)


def python_facts(view: HostView) -> dict[str, Any]:
    """``python``, ``executable`` and ``packages`` of the Python that was asked. Raises UnavailableError."""
    lines = view.text("python").strip().splitlines()  # what a sitecustomize prints stands before it
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (ValueError, IndexError, RecursionError):
        raise UnavailableError("python", "failed", "the host's Python printed no JSON") from None
    if not _FACTS(found):
        raise UnavailableError("python", "failed", "the host's Python printed JSON of another form")
    return found


def python(view: HostView) -> Judgement:
    """A version that raybench runs with."""
    facts = python_facts(view)
    seen = f"{facts['python']} ({facts['executable']})"
    version = tuple(int(part) for part in facts["python"].split(".")[:2])
    if version >= (3, 11):
        return passed(seen, "3.11 or newer")
    advice = "name another with preflight_python, or let raybench cluster up bring an environment"
    return warned(seen, "3.11 or newer", "raybench's own requirement", advice)


def _package(view: HostView, name: str, *names: str) -> Judgement:
    packages: dict[str, str] = python_facts(view)["packages"]
    version = next((packages[one] for one in (name, *names) if one in packages), None)
    wanted = view.expected.versions.get(name)
    expected = wanted or "the same on all hosts"
    advice = f"install it in {python_facts(view)['executable']} (preflight_python), or with raybench cluster up"
    if version is None:
        if wanted:
            return failed("not installed", expected, "preflight_versions", advice)
        return skipped(f"{name} is not installed there")
    if wanted and version.split("+")[0] != wanted.split("+")[0]:
        return failed(version, expected, "preflight_versions", f"pip install '{name}=={wanted}'")
    return passed(version, expected)


def torch(view: HostView) -> Judgement:
    """torch's version."""
    return _package(view, "torch")


def nccl(view: HostView) -> Judgement:
    """The NCCL that came with torch, as a Python package; else the system's."""
    judgement = _package(view, "nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
    if judgement.verdict != "skipped":
        return judgement
    system = next((version for name, version in system_packages(view).items() if name.startswith("libnccl")), None)
    return passed(f"{system} (of the system)", "the same on all hosts") if system else judgement


def nccl_version(view: HostView) -> str | None:
    """The version that ``nccl`` shows; None where there is no NCCL, or nothing says which."""
    try:
        seen = nccl(view)
    except UnavailableError:
        return None
    return None if seen.verdict == "skipped" or not re.match(r"\d+\.\d+", seen.seen) else seen.seen.split()[0]


def ray(view: HostView) -> Judgement:
    """Ray's version: a cluster needs the same, to the letter, on all nodes."""
    return _package(view, "ray")


def raybench(view: HostView) -> Judgement:
    """raybench's own version."""
    return _package(view, "raybench")


def system_packages(view: HostView) -> dict[str, str]:
    """Versions of the packages that the probe kept, of dpkg or rpm. Empty where neither is there."""
    name = next((name for name in ("dpkg", "rpm") if view.status(name) == "ok"), None)
    return parse_packages(view.text(name)) if name else {}


def rdma_stack(view: HostView) -> Judgement:
    """DOCA-OFED, or the distribution's rdma-core with infiniband-diags."""
    if not view.has_rdma:
        return skipped("no RDMA device here")
    if view.status("ofed_info") == "ok":
        return passed(view.text("ofed_info").strip().rstrip(":"), "DOCA-OFED, or rdma-core and infiniband-diags")
    packages = system_packages(view)
    need = ("rdma-core", "infiniband-diags")
    absent = [name for name in need if name not in packages]
    seen = ", ".join(f"{name} {packages[name]}" for name in need if name in packages)
    if packages and absent:
        advice = f"apt-get or dnf install {' '.join(absent)}; or raybench configure --tags packages"
        return warned(
            f"not installed: {', '.join(absent)}", "rdma-core and infiniband-diags", "ibstat, libibverbs", advice
        )
    return passed(seen or "not known", "DOCA-OFED, or rdma-core and infiniband-diags")
