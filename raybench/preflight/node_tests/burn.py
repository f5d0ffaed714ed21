"""What the driver said of devices while they were under full load: whether they were held down, and how hot. Pure."""

from collections.abc import Mapping, Sequence

from raybench.documents.preflight import NodeFigure
from raybench.preflight.node_tests.answer import NodeTests
from raybench.preflight.verdict import Judgement, failed, passed, unknown, warned
from raybench.stats import median, quantile
from raybench.verdicts import worst

STATE = "burn-state"
_HELD_DOWN = {
    "throttle_thermal": "too hot",
    "throttle_power_brake": "the power supply's brake",
    "throttle_hardware": "a slowdown of the hardware",
}  # the power limit (throttle_power_cap) is how a GPU works under full load
_FAIL_SHARE, _WARN_SHARE = 0.25, 0.02  # of the readings
_HOTTER = 15.0  # C above its peers: within a chassis the air alone makes up to 10 of a difference
_LEAST_PEERS = 2
_ADVICE = "look at fans, filters, inlet temperature, power supplies and heat sinks; nvidia-smi -q -d PERFORMANCE"
_GET_STATE = "install nvidia-ml-py (or ROCm's amdsmi) in the Python that tests, as raybench cluster up does"


def judge_states(tests: Mapping[str, NodeTests], groups: Mapping[str, str]) -> dict[str, Judgement]:
    """The judgement of each host that has such figures."""
    found = {}
    hottest = {
        (host, one.device): (groups.get(host, ""), one.model, _hottest(one))
        for host, tested in tests.items()
        for one in tested.figures
        if one.test == STATE and one.case == "temperature_celsius" and one.samples
    }
    for host, tested in tests.items():
        own = [one for one in tested.figures if one.test == STATE]
        if own:
            peers = {
                device: [
                    heat
                    for place, (group, model, heat) in hottest.items()
                    if place != (host, device) and (group, model) == hottest[host, device][:2]
                ]
                for other, device in hottest
                if other == host
            }
            found[host] = _judged(own, peers)
    return found


def _hottest(one: NodeFigure) -> float:
    return quantile(sorted(one.samples), 0.9)


def _judged(own: Sequence[NodeFigure], peers: Mapping[str, Sequence[float]]) -> Judgement:
    devices = dict.fromkeys(one.device for one in own)
    results = [_device([one for one in own if one.device == device], peers.get(device, ())) for device in devices]
    verdict = worst(one.verdict for one in results)
    of_it = [one for one in results if one.verdict == verdict]
    first = of_it[0]
    return Judgement(
        verdict=verdict,
        seen="; ".join(one.seen for one in of_it[:4]) + (f"; and {len(of_it) - 4} more" if len(of_it) > 4 else ""),
        expected=first.expected,
        basis=first.basis,
        advice=first.advice,
    )


def _device(own: Sequence[NodeFigure], peers: Sequence[float]) -> Judgement:
    device = own[0].device
    missing = [one for one in own if one.status != "ok" or not one.samples]
    if missing:
        return unknown(f"{device}: {missing[0].reason or 'the driver said nothing'}", _GET_STATE)
    shares = {one.case: one.samples[0] for one in own if one.case in _HELD_DOWN}
    told = [f"{_HELD_DOWN[case]} for {share:.0%} of the time" for case, share in shares.items() if share >= _WARN_SHARE]
    heat = next((one for one in own if one.case == "temperature_celsius"), None)
    seen = f"{device}: {', '.join(told) or _cool(shares)}" + (f"; {_hottest(heat):.0f} C" if heat else "")
    if told:
        said = failed if max(shares.values()) >= _FAIL_SHARE else warned
        return said(
            seen, "clocks that nothing but the power limit holds down", "the driver's reasons, each second", _ADVICE
        )
    if heat and len(peers) >= _LEAST_PEERS and _hottest(heat) >= median(list(peers)) + _HOTTER:
        limit = f"at most {median(list(peers)) + _HOTTER:.0f} C"
        return warned(seen, limit, f"{_HOTTER:.0f} C above the median of {len(peers)} other devices", _ADVICE)
    return passed(seen) if shares else unknown(f"{seen}; the driver gives no reasons of lowered clocks")


def _cool(shares: Mapping[str, float]) -> str:
    return "never held down" if shares else "not known whether it was held down"
