"""Amazon's EFA: whether libfabric, through which alone NCCL reaches it, sees every device, and its parts fit."""

import re
from collections.abc import Iterator, Mapping

from raybench.preflight.checks.software import system_packages
from raybench.preflight.host_view import HostView
from raybench.preflight.parsers.rdma import parse_fi_info
from raybench.preflight.verdict import Judgement, failed, passed, skipped, unknown, warned

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


# The plugin refuses an older libfabric on EFA since its release 1.8.1 (github.com/aws/aws-ofi-nccl/pull/333), of 2024.
_PLUGIN_WITH_LIMIT, _LEAST_LIBFABRIC = (1, 8, 1), (1, 18, 0)
_INSTALLED = "/opt/amazon/efa_installed_packages"
_PLUGINS = ("aws-ofi-nccl", "libnccl-ofi", "libnccl-ofi-ngc")
_FABRICS = ("libfabric-aws", "libfabric1-aws", "libfabric-aws-bin")


def versions(view: HostView) -> Judgement:
    """EFA's installer brings driver, libfabric and plugin that fit: those of two installers, or old ones, do not."""
    if "efa" not in view.rdma_drivers.values():
        return skipped("no EFA device here")
    listed = view.file("kernel", _INSTALLED)
    packages = system_packages(view)
    parts = dict(_parts(listed or "", packages, view.file("kernel", "/sys/module/efa/version") or ""))
    seen = ", ".join(f"{name} {version}" for name, version in parts.items())
    expected, basis = "parts of one installer, libfabric 1.18 or newer", f"{_INSTALLED}, packages, /sys/module/efa"
    if not seen:
        return unknown("no version of any part of EFA can be read", "install it by AWS's EFA installer, as root")
    wrong = list(_misfits(listed or "", packages, parts))
    if wrong:
        judged = failed if any(bad for bad, _ in wrong) else warned
        return judged(f"{'; '.join(text for _, text in wrong)} ({seen})", expected, basis, _ADVICE)
    return passed(seen, expected, basis)


def _parts(listed: str, packages: Mapping[str, str], driver: str) -> Iterator[tuple[str, str]]:
    installer = re.search(r"EFA installer version: *([0-9.]{1,20})", listed)
    fabric = next((packages[name] for name in _FABRICS if name in packages), "") or _listed(listed, "libfabric")
    plugin = next((packages[name] for name in _PLUGINS if name in packages), "")
    found = {"installer": installer[1] if installer else "", "driver": driver, "libfabric": fabric, "plugin": plugin}
    yield from ((name, version) for name, version in found.items() if version)


def _listed(listed: str, beginning: str) -> str:
    """The version of a package in the installer's own list: ``libfabric-aws-1.17.0-1.el8.x86_64``."""
    match = re.search(rf"\b{beginning}[a-z0-9-]{{0,20}}?[-_](\d{{1,4}}\.\d{{1,4}}\.\d{{1,4}}[a-z0-9.]{{0,12}})", listed)
    return match[1] if match else ""


def _misfits(listed: str, packages: Mapping[str, str], parts: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    fabric, plugin = _numbers(parts.get("libfabric", "")), _numbers(parts.get("plugin", ""))
    if fabric and fabric < _LEAST_LIBFABRIC and (not plugin or plugin >= _PLUGIN_WITH_LIMIT):
        needs = "needs libfabric 1.18" if plugin else "of 2024 and later needs libfabric 1.18"
        yield bool(plugin), f"aws-ofi-nccl {needs}, here is {parts['libfabric']}"
    said, own = _numbers(_listed(listed, "libfabric")), next((packages[one] for one in _FABRICS if one in packages), "")
    if said and own and _numbers(own) != said:
        yield False, f"the installer brought libfabric {_listed(listed, 'libfabric')}, installed is {own}"


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", version)
    return tuple(int(one or 0) for one in match.groups()) if match else ()
