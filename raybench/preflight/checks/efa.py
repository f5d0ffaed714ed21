"""Amazon's EFA: whether libfabric, through which alone NCCL reaches it, sees every device."""

from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.rdma import parse_fi_info
from raybench.preflight.verdict import Judgement, failed, passed, skipped, warned

_EXPECTED = "libfabric sees every EFA device"
_BASIS = "NCCL reaches EFA by libfabric and the plugin aws-ofi-nccl alone, and takes TCP without them"
_ADVICE = "install or update the EFA installer (libfabric, aws-ofi-nccl), on the host or in the container of the job"


def libfabric(view: HostView) -> Judgement:
    """``fi_info -p efa`` names each device that the kernel has; -61 means that it found none."""
    devices = {device for device, driver in view.rdma_drivers.items() if driver == "efa"}
    if not devices:
        return skipped("no EFA device here")
    status = view.status("fi_info")
    if status == "missing":
        return warned("fi_info is not installed", _EXPECTED, _BASIS, _ADVICE)
    reading = view.readings["fi_info"]
    said = f"{reading.get('text') or ''}{reading.get('error') or ''}".strip()
    if status != "ok" and "fi_getinfo" not in said:
        view.text("fi_info")
    unseen = sorted(devices - parse_fi_info(said).get("efa", frozenset()))
    if unseen:
        seen = f"{said.splitlines()[-1]}: " if status != "ok" else ""
        return failed(f"{seen}not seen: {', '.join(unseen)}", _EXPECTED, _BASIS, _ADVICE)
    return passed(f"{len(devices)} of {len(devices)} EFA devices", _EXPECTED)
