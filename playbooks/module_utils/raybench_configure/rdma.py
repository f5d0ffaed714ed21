"""RDMA: what hardware is there, which kernel modules and packages it needs."""

from __future__ import annotations

import re
from typing import Any

from .errors import HostError
from .host import Host
from .plan import ItemPlan, Setting, edited_file, fixed, own_file, skip
from .resources.kernel import ModuleResource
from .resources.service import PackageResource, installed, simulate
from .value import all_named, line, named

_MODULES_FILE = "/etc/modules-load.d/raybench-rdma.conf"
_MODULES_FILES = (
    "/usr/lib/modules-load.d/*.conf",
    "/etc/modules-load.d/*.conf",
    "/etc/modules",
    "/etc/rdma/modules/*.conf",
)
# Network driver -> RDMA driver beside it. Drivers that many ordinary servers have count only where the user lists them.
_COMPANIONS = {"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib", "efa": "efa"}
_ONLY_IF_LISTED = {"ice": "irdma", "i40e": "irdma", "bnxt_en": "bnxt_re", "qede": "qedr", "cxgb4": "iw_cxgb4"}
_USER_SPACE = ("ib_uverbs", "rdma_ucm", "ib_umad")
_NVIDIA_NETWORKING, _AMAZON = "0x15b3", "0x1d0f"
_BOTH = ["rdma-core", "infiniband-diags", "perftest", "pciutils", "ethtool", "iperf3"]
PACKAGES = {
    "debian": [*_BOTH, "ibverbs-providers", "ibverbs-utils", "rdmacm-utils"],
    "rhel": [*_BOTH, "libibverbs", "libibverbs-utils", "librdmacm-utils"],
}
_DOCA_FILES = ("/etc/apt/sources.list.d/raybench-doca.list", "/etc/yum.repos.d/raybench-doca.repo")
_TOOLS = {"debian": "apt", "rhel": "dnf"}


def rdma_devices(host: Host) -> list[str]:
    """Names of the RDMA devices that the kernel shows."""
    return [path.rsplit("/", 1)[1] for path in host.glob("/sys/class/infiniband/*")]


def rdma_interfaces(host: Host) -> dict[str, str]:
    """Network interfaces whose hardware is also an RDMA device of link layer Ethernet: device by interface."""
    found = {}
    for device in rdma_devices(host):
        if host.word(f"/sys/class/infiniband/{device}/ports/1/link_layer") == "Ethernet":
            attached = host.word(f"/sys/class/infiniband/{device}/ports/1/gid_attrs/ndevs/0")
            under = [path.rsplit("/", 1)[1] for path in host.glob(f"/sys/class/infiniband/{device}/device/net/*")]
            found.update(dict.fromkeys([attached] if attached else under, device))
    return found


def rdma_hardware(host: Host) -> dict[str, str]:
    """PCI address -> kernel module of NICs made for RDMA (NVIDIA, and Amazon's EFA)."""
    found = {}
    for path in host.glob("/sys/bus/pci/devices/*"):
        vendor, kind = host.word(f"{path}/vendor"), host.word(f"{path}/class")
        device = host.word(f"{path}/device")
        if vendor == _NVIDIA_NETWORKING and kind.startswith("0x02"):
            found[path.rsplit("/", 1)[1]] = "mlx4_core" if device.startswith("0x100") else "mlx5_core"
        elif vendor == _AMAZON and device.startswith("0xefa"):
            found[path.rsplit("/", 1)[1]] = "efa"
    return found


def plan_modules(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``extra``: modules beside those that the hardware needs. Loaded now, and at boots where nothing else does."""
    extra = all_named("module", options["extra"], "rdma_driver_modules")
    container = host.container()
    if container:
        return skip(f"{container}: kernel modules are the machine's")
    drivers = sorted(set(rdma_hardware(host).values()))
    if not drivers and not rdma_devices(host) and not extra:
        return skip("no RDMA NIC on the PCI bus, and rdma_driver_modules lists none", advice=_unlisted(host))
    by_hardware = [name for driver in drivers for name in (driver, _COMPANIONS[driver])]
    needed = list(dict.fromkeys([*by_hardware, *_USER_SPACE, *extra]))
    return _module_plan(host, needed, by_itself=set(by_hardware))


def _module_plan(host: Host, needed: list[str], by_itself: set[str]) -> ItemPlan:
    plan, usable = ItemPlan(), []
    for name in needed:
        if host.exists(f"/sys/module/{name.replace('-', '_')}"):
            usable.append(name)
        elif host.run("modprobe", "-n", "-q", "--", name).status == 0:
            usable.append(name)
            plan.settings.append(Setting(ModuleResource(name), fixed(loaded=True)))
        else:
            plan.advice.append(f"this kernel has no module {name}: install linux-modules-extra or kernel-modules-extra "
                               "for it, or DOCA-OFED")  # fmt: skip
    listed = _listed(host)
    kept = [name for name in usable if name not in listed and name not in by_itself]
    if kept or host.exists(_MODULES_FILE):
        plan.settings.insert(0, own_file("rdma_driver.modules", _MODULES_FILE, "".join(f"{name}\n" for name in kept)))
    return plan


def _listed(host: Host) -> set[str]:
    names = [name for pattern in _MODULES_FILES for name in host.glob(pattern) if name != _MODULES_FILE]
    rows = [row.split("#")[0].split() for name in names for row in (host.text(name) or "").splitlines()]
    return {row[0].replace("-", "_") for row in rows if row}


def _unlisted(host: Host) -> list[str]:
    drivers = {
        re.sub(r".*/", "", str(host.path(path).resolve())) for path in host.glob("/sys/bus/pci/devices/*/driver")
    }
    return [
        f"the driver {driver} can do RDMA with {_ONLY_IF_LISTED[driver]}: list that in rdma_driver_modules to use it"
        for driver in sorted(drivers & set(_ONLY_IF_LISTED))
    ]


def plan_packages(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``packages`` (empty: those of the distribution), ``manage``: auto (only with RDMA hardware), always or never."""
    family, manage = host.family(), options["manage"]
    wanted = all_named("package", options["packages"] or PACKAGES.get(family, []), "rdma_driver_packages")
    if manage == "never":
        return skip("rdma_driver_manage_packages is never")
    if manage == "auto" and not rdma_devices(host) and not rdma_hardware(host):
        return skip("no RDMA hardware: nothing to install (rdma_driver_manage_packages: always installs nevertheless)")
    if family not in _TOOLS:
        return skip(f"packages of {family} are not known; install rdma-core and perftest by its own means")
    if options.get("doca_repository"):
        if not any(host.exists(name) for name in _DOCA_FILES):
            return skip("doca-ofed: what it brings is known once its repository is set up, not in check mode")
        wanted.append("doca-ofed")
    return package_plan(host, wanted)


def package_plan(host: Host, wanted: list[str]) -> ItemPlan:
    """Install what is missing, with what that brings along."""
    tool = _TOOLS[host.family()]
    present = installed(host, tool)
    missing = [name for name in wanted if name not in present]
    if not missing:
        return skip(f"all {len(wanted)} packages are installed")
    try:
        brought = simulate(host, tool, missing)
    except HostError as error:
        hint = "; run the package manager's update first" if tool == "apt" else ""
        return ItemPlan(problem=f"{error}{hint}")
    if brought.removed:
        return ItemPlan(
            problem=f"installing {' '.join(missing)} would remove {' '.join(brought.removed)}: nothing was changed"
        )
    resource = PackageResource(f"{tool} {' '.join(missing)}", tuple(sorted({*brought.new, *missing})))
    plan = ItemPlan(settings=[Setting(resource, lambda state: dict.fromkeys(state or {}, True))])
    if brought.upgraded:
        plan.notes.append(f"other versions come of {', '.join(brought.upgraded)}; rollback does not take those back")
    return plan


def plan_repository(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``url`` and ``key`` (the armoured signing key) of DOCA's repository, for packages that are signed with it."""
    if not options["url"]:
        return skip("rdma_driver_doca_repository is not given: the distribution's packages are used")
    url, family = named("url", options["url"], "rdma_driver_doca_repository"), host.family()
    key = str(options["key"] or "")
    if not re.fullmatch(
        r"-----BEGIN PGP PUBLIC KEY BLOCK-----[\x20-\x7e\n]+-----END PGP PUBLIC KEY BLOCK-----\n?", key
    ):
        line(None, "rdma_driver_doca_key (an armoured PGP public key)")
    item = "rdma_driver.repository"
    if family == "debian":
        key_file = "/etc/apt/keyrings/raybench-doca.asc"
        list_file = own_file(
            item, "/etc/apt/sources.list.d/raybench-doca.list", f"deb [signed-by={key_file}] {url} ./\n"
        )
        plan = ItemPlan(settings=[edited_file(key_file, lambda _: key), list_file])
        plan.reload.append(["apt-get", "-q", "update"])
        return plan
    if family == "rhel":
        key_file = "/etc/pki/rpm-gpg/RPM-GPG-KEY-raybench-doca"
        body = f"[raybench-doca]\nname=DOCA\nbaseurl={url}\nenabled=1\ngpgcheck=1\ngpgkey=file://{key_file}\n"
        return ItemPlan(settings=[edited_file(key_file, lambda _: key), own_file(item, _DOCA_FILES[1], body)])
    return skip(f"DOCA has no repository for {family}")
