"""NVIDIA's DCGM, where it is installed and its host engine runs: what its health watches have found."""

import re

from raybench.preflight.host_view import HostView
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

_OVERALL = re.compile(r"Overall Health\s*(?:\||:)\s*\|?\s*([A-Za-z]+)")
_UNWATCHED = re.compile(r"[Hh]ealth watches not enabled|not (?:been )?watched|No health watches", re.IGNORECASE)
_UNREACHED = re.compile(
    r"[Uu]nable to (?:establish a )?connect|[Cc]onnection (?:refused|to the)|not valid anymore|host engine"
)
_GOOD = frozenset({"healthy", "pass"})
_ADVICE = "dcgmi health -g 0 -c on the host; dcgmi diag -r 3 once no job runs there; do what it says"


def health(view: HostView) -> Judgement:
    """``dcgmi health -c``: incidents in what DCGM has watched. Healthy says nothing of what it does not watch."""
    status = view.status("dcgmi_health")
    if status == "missing":
        return skipped("dcgmi is not installed")
    if status == "timeout":
        return unknown("dcgmi did not end", "systemctl status nvidia-dcgm; host-probe names what hangs")
    said = view.said("dcgmi_health")
    overall = _OVERALL.search(said)
    if overall is None:
        if _UNWATCHED.search(said):
            return skipped("DCGM watches no health here (dcgmi health -g 0 -s a switches it on)")
        if _UNREACHED.search(said):
            return skipped("DCGM's host engine does not run here")
        return unknown(f"dcgmi health says: {said.strip()[:160]}", "run dcgmi health -g 0 -c by hand")
    word = overall[1]
    if word.lower() in _GOOD:
        return passed("healthy, as far as DCGM watches", "healthy")
    seen = "; ".join(dict.fromkeys([word, *_incidents(said)]))[:600]
    judged = warned if word.lower() == "warning" else failed
    return judged(seen, "healthy", "dcgmi health -g 0 -c", _ADVICE)


def _incidents(said: str) -> list[str]:
    """What stands in the right column below the heading: systems that failed, and sentences that wrap over lines."""
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|\s*$", said, re.MULTILINE)
    found: list[str] = []
    for left, right in ((one.strip(" ->"), other.strip()) for one, other in rows):
        if not right or left == "Overall Health":
            continue
        if left or not found:
            found.append(f"{left} {right}".strip())
        else:
            found[-1] = f"{found[-1]} {right}"
    return found[:8]
