"""Whether the host keeps time. How far hosts are apart is judged over all of them, see ``drift.py``."""

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.system import parse_chrony, parse_ntpq, parse_pairs
from raybench.preflight.verdict import Judgement, failed, passed, unknown, warned

_ADVICE = "systemctl enable --now chrony (chronyd on RHEL) with a reachable server, then chronyc makestep"


def synchronisation(view: HostView) -> Judgement:
    """The offset that chrony or ntpd measured, else whether systemd says that the clock is synchronised."""
    if view.status("chronyc") == "ok":
        tracking = parse_chrony(view.text("chronyc"))
        if tracking.offset_seconds is not None:
            return _offset(view, tracking.offset_seconds, "chrony")
        return warned("chrony is not synchronised", "synchronised", "chronyc tracking", _ADVICE)
    if view.status("ntpq") == "ok":
        offset = parse_ntpq(view.text("ntpq"))
        if offset is not None:
            return _offset(view, offset, "ntpd")
        return warned("ntpd follows no server", "synchronised", "ntpq -pn", _ADVICE)
    if view.status("timedatectl") == "ok":
        state = parse_pairs(view.text("timedatectl")).get("NTPSynchronized", "")
        if state == "yes":
            return passed("synchronised, offset not known", "synchronised", "timedatectl")
        if state == "no":
            return warned("not synchronised", "synchronised", "timedatectl", _ADVICE)
    return _untold(view)


def _untold(view: HostView) -> Judgement:
    """No time service told an offset: none that runs is a finding, one that may not be asked is not known."""
    running = view.value("time_services")
    precise = [name for name in running if name in {"ptp4l", "phc2sys", "timemaster"}]
    if precise:
        return passed(f"{', '.join(precise)} runs, offset not known", "synchronised")
    if running:
        return unknown(f"{', '.join(running)} runs, and does not say how far the clock is off", _ADVICE)
    if "denied" in {view.status(name) for name in ("chronyc", "ntpq")}:
        return unknown("the time service may not be asked", "run preflight as root (become: true)")
    basis = "neither chrony, ntpd, systemd-timesyncd nor PTP runs: the clock drifts by seconds a day"
    return warned("no time service runs", "synchronised", basis, _ADVICE)


def _offset(view: HostView, seconds: float, source: str) -> Judgement:
    limit, worst = view.expected.clock_warn_seconds, view.expected.clock_fail_seconds
    seen = f"{seconds * 1000:+.3f} ms ({source})"
    expected = f"within {limit * 1000:g} ms"
    if abs(seconds) <= limit:
        return passed(seen, expected)
    verdict = failed if abs(seconds) > worst else warned
    return verdict(seen, expected, f"scitix/sichek: warn at 1 ms, fail at 10 ms; {source}", _ADVICE)
