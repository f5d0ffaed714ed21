"""What a host has to take part in fabric tests: devices, addresses and tools, read from sysfs and the tools themselves.

Reads only. Every command has a time limit; what cannot be read is left out, and the controller says what that means.
"""

from __future__ import annotations

import glob
import os
import random
import re
import shutil
import socket

from ansible.module_utils.raybench_host import rdma
from ansible.module_utils.raybench_host.command import run
from ansible.module_utils.raybench_host.files import file_number, first_line
from ansible.module_utils.raybench_host.machine import boot_id, network_id

_NET = "/sys/class/net"
_SECONDS = 8
_HELP_LINE = re.compile(r"--(?:use_|out_json|report_gbits|tclass|bind_source|version|cuda|rocm)")
_KFD_NODES = "/sys/class/kfd/kfd/topology/nodes"
_TOOLS = ("ib_write_bw", "ib_write_lat", "iperf3")


def discover(ports):
    """Everything in one dictionary. ``ports`` is the range, (first, last), in which a control port is looked for."""
    nvidia = _gpus()
    return {
        "hostname": socket.gethostname(),
        "boot_id": boot_id(),
        "network_id": network_id(),
        "devices": [_port(device, port) for device, port in _verbs_ports()],
        "interfaces": [_interface(name) for name in sorted(os.listdir(_NET))],
        "addresses": _addresses(),
        "gpus": nvidia or amd_gpus(),
        "gpu_vendor": "nvidia" if nvidia else "amd",
        "tools": _tools(),
        "rdma_link": said(["rdma", "link", "show"])[:8000],
        "control_port": _free(ports),
    }


def said(command):
    """What a command printed; empty where it is missing or does not end in time."""
    environment = dict(os.environ, LC_ALL="C", PATH=_search_path())
    ended = run(command, _SECONDS, environment, together=True)
    return "" if ended.problem else ended.said


def _search_path():
    return os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin:/usr/local/bin"


def _which(name):
    return shutil.which(name, path=_search_path())


def _verbs_ports():
    for device in rdma.device_names():
        for port in sorted(os.listdir(f"{rdma.CLASS}/{device}/ports"), key=int):
            yield device, port


def _port(device, port):
    base = f"{rdma.CLASS}/{device}"
    at_port = f"{base}/ports/{port}"
    names = {"state": "state", "phys_state": "phys_state", "rate": "rate", "link_layer": "link_layer"}
    found = {key: first_line(f"{at_port}/{name}") for key, name in names.items()}
    netdevs = sorted(os.listdir(base + "/device/net")) if os.path.isdir(base + "/device/net") else []
    parent = first_line(base + "/parent")  # rdma_rxe names the network interface that it sits on
    found.update(
        name=device,
        port=int(port),
        driver=rdma.driver(base) or None,
        firmware=first_line(base + "/fw_ver"),
        board=first_line(base + "/board_id"),
        hca_type=first_line(base + "/hca_type"),
        netdev=parent or (netdevs[0] if netdevs else None),
        gids=_gids(at_port),
        pci=_pci(base + "/device"),
        info=said(["ibv_devinfo", "-d", device, "-i", port])[:3000],
        counters=[path for path in (at_port + "/counters", at_port + "/hw_counters") if os.path.isdir(path)],
    )
    return found


def _gids(at_port):
    """Entries of the GID table that are in use. An entry that is not has no type: reading it is an error."""
    found = []
    for path in glob.glob(at_port + "/gids/*"):
        index, gid = os.path.basename(path), first_line(path)
        kind = first_line(f"{at_port}/gid_attrs/types/{index}")
        if gid and gid.strip("0:") and (kind or gid.startswith("fe80")):
            netdev = first_line(f"{at_port}/gid_attrs/ndevs/{index}")
            found.append({"index": int(index), "gid": gid, "type": kind, "netdev": netdev})
    return sorted(found, key=lambda entry: entry["index"])[:64]


def _interface(name):
    base = f"{_NET}/{name}"
    return {
        "name": name,
        "state": first_line(base + "/operstate"),
        "speed_mbit": file_number(base + "/speed"),
        "mtu": file_number(base + "/mtu"),
        "driver": rdma.bound_driver(base + "/device") or None,
        "pci": _pci(base + "/device"),
        "counters": [base + "/statistics"],
    }


def _pci(device):
    """The link of a PCI function and of every bridge above it, nearest first: the narrowest decides."""
    real = os.path.realpath(device)
    links = []
    path = real
    while path.startswith("/sys/devices/pci"):
        speed, width = first_line(path + "/current_link_speed"), first_line(path + "/current_link_width")
        if speed or width:
            links.append({"address": os.path.basename(path), "speed": speed, "width": width})
        path = os.path.dirname(path)
    if not links:
        return None
    return {
        "path": real,
        "links": links,
        "max_speed": first_line(real + "/max_link_speed"),
        "max_width": first_line(real + "/max_link_width"),
        "max_payload_bytes": _max_payload(real + "/config"),
        "numa_node": first_line(real + "/numa_node"),
    }


def _max_payload(path):
    """MaxPayloadSize as it is set (PCI Express Base, 7.5.3.4, bits 7:5 of Device Control); None below root."""
    try:
        with open(path, "rb") as file:
            space = file.read(256)
    except OSError:
        return None
    at, seen = space[0x34] if len(space) > 0x34 else 0, 0
    while 0x40 <= at < len(space) - 10 and seen < 48:
        if space[at] == 0x10:
            return 128 << ((space[at + 8] >> 5) & 7)
        at, seen = space[at + 1], seen + 1
    return None


def _addresses():
    """(interface, family, address) of every address but those of the loopback, from ``ip``."""
    found = []
    for line in said(["ip", "-o", "addr", "show", "scope", "global"]).splitlines():
        words = line.split()
        if len(words) > 3 and words[2] in ("inet", "inet6"):
            found.append({"interface": words[1], "family": words[2], "address": words[3].partition("/")[0]})
    return found


def _gpus():
    """PCI paths of NVIDIA GPUs by bus address: the order of CUDA where CUDA_DEVICE_ORDER is PCI_BUS_ID."""
    folders = sorted(glob.glob("/proc/driver/nvidia/gpus/*"))
    return [os.path.realpath("/sys/bus/pci/devices/" + os.path.basename(path)) for path in folders]


def amd_gpus(nodes=_KFD_NODES):
    """PCI paths of AMD's GPUs in the order of the kernel's compute nodes, which HIP numbers them by."""
    found = []
    numbers = [name for name in (os.listdir(nodes) if os.path.isdir(nodes) else ()) if name.isdecimal()]
    for name in sorted(numbers, key=int):
        told = _properties(nodes + "/" + name + "/properties")
        if told.get("simd_count") and "location_id" in told:  # a CPU is a compute node, too, and has none
            place = told["location_id"]
            domain, bus, slot = told.get("domain", 0), place >> 8 & 0xFF, place >> 3 & 0x1F
            address = f"{domain:04x}:{bus:02x}:{slot:02x}.{place & 7:x}"
            found.append(os.path.realpath("/sys/bus/pci/devices/" + address))
    return found


def _properties(path):
    """Lines of a name and a number."""
    try:
        with open(path) as file:
            lines = [line.split() for line in file.read(65536).splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdecimal()}


def _tools():
    """Test programs that are there. The two of perftest come from one package: one is asked for both."""
    found = {name: {"path": _which(name), "version": "", "help": ""} for name in _TOOLS if _which(name)}
    for asked, names in (("ib_write_bw", ("ib_write_bw", "ib_write_lat")), ("iperf3", ("iperf3",))):
        if asked in found:
            version = said([asked, "--version"]).strip().splitlines()
            text = said([asked, "--help"]) if asked == "ib_write_bw" else ""
            lines = [line for line in text.splitlines() if _HELP_LINE.search(line)]
            for name in names:
                found.get(name, {}).update(version=version[0][:200] if version else "", help="\n".join(lines)[:4000])
    return found


def _free(ports):
    return next((port for port in shuffled(ports) if is_free(port)), None)


def shuffled(ports):
    """The ports of a range, (first, last), in random order: two agents on one machine then rarely choose the same."""
    every = list(range(ports[0], ports[1] + 1))
    random.shuffle(every)
    return every


def is_free(port):
    """Whether nobody listens on a TCP port of this host, whatever the address."""
    probe = socket.socket(
        socket.AF_INET6 if socket.has_ipv6 and os.path.exists("/proc/net/if_inet6") else socket.AF_INET
    )
    try:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("", port))
    except OSError:
        return False
    finally:
        probe.close()
    return True
