#!/usr/bin/python
# Copyright: the raybench contributors
# SPDX-License-Identifier: Apache-2.0
"""Everything that preflight wants to know of a host, gathered in one round trip. Judges nothing and changes nothing."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_probe
short_description: Gather what preflight judges of a host, in one round trip
description:
  - Reads files and runs read-only programs in parallel, each for a limited time, and returns what they said.
  - A program that does not end in time is killed with all that it started, and reported as timed out.
  - Judges nothing. The checks of the Python package raybench do, on the control node.
version_added: "1.0.0"
options:
  timeout_seconds:
    description: How long each program may take.
    type: float
    default: 20
  interval_seconds:
    description: How long to wait between two readings of the port counters.
    type: float
    default: 1
  python:
    description: The Python whose packages (torch, ray, raybench) are looked at. Empty for the one on the search path.
    type: str
    default: ""
  folders:
    description: Folders whose file systems are measured.
    type: list
    elements: str
    default: ["/", "/tmp"]
  listen_ports:
    description: TCP ports to listen on for O(listen_seconds), so that other hosts can try whether they reach them.
    type: list
    elements: int
    default: []
  listen_seconds:
    description: How long to listen. The listener is a process of its own that ends by itself.
    type: float
    default: 60
  listen_connections:
    description: End the listener as soon as each port was reached so often, so that it is in nobody's way. 0 for never.
    type: int
    default: 0
  reach:
    description:
      - Only try whether these hosts answer at O(reach_ports), and gather nothing else.
      - Each is a name and addresses of it, of which the first that is not empty is tried.
    type: list
    elements: list
    default: []
  reach_ports:
    description: TCP ports to try at the hosts in O(reach).
    type: list
    elements: int
    default: []
  expectations:
    description: What the inventory expects of this host. Handed through to the checks.
    type: dict
    default: {}
  sent_at:
    description: When the control node sent the task, in seconds since 1970. Handed back, to compare clocks.
    type: float
  environment_variables:
    description: Environment variables for the programs, as for a simulated fabric.
    type: dict
    default: {}
  prefix:
    description: A program, with its arguments, to run the RDMA programs under, as C(ibsim-run).
    type: list
    elements: str
    default: []
  packed:
    description: Return the facts compressed, as one string, which Ansible carries faster than a tree.
    type: bool
    default: false
author:
  - The raybench contributors
attributes:
  check_mode:
    description: Changes nothing, in check mode or not.
    support: full
"""

EXAMPLES = r"""
- name: Gather
  raybench_probe:
    timeout_seconds: 20
  register: preflight_gathered
"""

RETURN = r"""
facts:
  description: Readings by name. Each has a status (ok, missing, failed, timeout, denied) and a text.
  returned: when not packed
  type: dict
address:
  description: An address of this host that others may reach it at.
  returned: when packed
  type: str
packed:
  description: The same as zlib-compressed JSON in base64.
  returned: when packed
  type: str
"""

import base64
import errno
import glob
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

from ansible.module_utils.basic import AnsibleModule

SCHEMA = "raybench.probe/1"
MOST_CHARACTERS = 2000000  # of an answer, after what no check wants was taken out of it
MOST_BYTES = 64 << 20  # that a program may print before it is ended
SYSTEM_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/mellanox/iproute2/sbin:/usr/mft/bin"

# name -> command line. RDMA programs can run under a prefix.
PROGRAMS = {
    "chronyc": ["chronyc", "-n", "tracking"],
    "dmesg": ["dmesg"],
    "fabricmanager": ["systemctl", "show", "nvidia-fabricmanager", "-p", "LoadState,ActiveState,SubState"],
    "ibstat": ["ibstat"],
    "iptables": ["iptables-save"],
    "lspci": ["lspci", "-D", "-nn", "-vvv"],
    "nft": ["nft", "list", "ruleset"],
    "ntpq": ["ntpq", "-pn"],
    "nvidia_smi": ["nvidia-smi", "-q"],
    "nvidia_smi_nvlink": ["nvidia-smi", "nvlink", "-s"],
    "nvidia_smi_topo": ["nvidia-smi", "topo", "-m"],
    "ofed_info": ["ofed_info", "-s"],
    "rdma_link": ["rdma", "link"],
    "timedatectl": ["timedatectl", "show"],
    "firewalld": ["systemctl", "is-active", "firewalld"],
    "dpkg": ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n"],
    "rpm": ["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE} installed\n"],
}
RDMA_PROGRAMS = ("ibstat",)
# Kernel messages that a check may want; the rest stays on the host.
KERNEL_MESSAGES = re.compile(
    r"NVRM|Xid|SXid|nvidia|mlx5|mlx4|irdma|bnxt_|efa |AER|Hardware Error|[Mm]achine [Cc]heck|mce:|EDAC|oom"
    r"|[Oo]ut of memory|hung task|blocked for more than|I/O error|[Ll]ink (?:[Ii]s )?(?:[Uu]p|[Dd]own)|PCIe Bus Error"
)
PACKAGES = re.compile(
    r"^(?:nvidia-|libnvidia-|cuda-(?:drivers|toolkit|runtime)|libnccl|datacenter-gpu-manager|mlnx-|doca-|rdma-core|ibverbs"
    r"|libibverbs|librdmacm|infiniband-diags|libibumad|perftest|opensm|ucx|openmpi|libfabric|efa|aws-ofi-nccl|openssh-server"
    r"|chrony|ntp|linux-firmware|docker-ce|containerd|slurm|mft|ofed)"
)
DISTRIBUTIONS = (
    "torch", "ray", "raybench", "numpy", "triton", "transformer-engine", "flash-attn", "deepspeed", "vllm",
    "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13",
)  # fmt: skip
PYTHON_FACTS = """
import importlib.metadata as m, json, platform, sys
found = {}
for name in %r:
    try:
        found[name] = m.version(name)
    except Exception:
        pass
print(json.dumps({"python": platform.python_version(), "executable": sys.executable, "packages": found}))
"""
PORT_COUNTERS = "/sys/class/infiniband/*/ports/*/counters/*"
# What perfquery calls the counters of sysfs.
QUERIED_COUNTERS = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
}
HARDWARE_COUNTERS = "/sys/class/infiniband/*/ports/*/hw_counters/*"
# Files that are read whole: name -> patterns. Values are returned by path.
FILES = {
    "os_release": ["/etc/os-release"],
    "proc": [
        "/proc/version", "/proc/cmdline", "/proc/meminfo", "/proc/swaps", "/proc/uptime", "/proc/loadavg",
        "/proc/modules",
        "/proc/driver/nvidia/version", "/proc/driver/nvidia/params",
        "/proc/sys/kernel/numa_balancing", "/proc/sys/vm/nr_hugepages", "/proc/sys/vm/swappiness",
        "/proc/sys/net/ipv4/tcp_congestion_control", "/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max",
        "/proc/sys/net/ipv4/ip_local_port_range", "/proc/net/bonding/*",
    ],
    "kernel": [
        "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/smt/active", "/sys/devices/system/node/online",
        "/sys/devices/system/edac/mc/mc*/ce_count", "/sys/devices/system/edac/mc/mc*/ue_count",
        "/sys/module/nvidia/version", "/sys/module/nvidia_peermem/version", "/sys/module/mlx5_core/version",
        "/sys/module/nvidia/parameters/*", "/sys/class/dmi/id/product_name", "/sys/class/dmi/id/bios_version",
    ],
    "limits": ["/etc/systemd/logind.conf", "/etc/systemd/logind.conf.d/*.conf", "/etc/security/limits.conf",
               "/etc/security/limits.d/*.conf"],
    "nccl": ["/etc/nccl.conf"],
    "net": [
        "/sys/class/net/*/mtu", "/sys/class/net/*/operstate", "/sys/class/net/*/speed",
        "/sys/class/net/*/address",
        "/sys/class/net/*/carrier_changes", "/sys/class/net/*/ecn/roce_np/enable/*",
        "/sys/class/net/*/ecn/roce_rp/enable/*", "/sys/class/net/*/ecn/roce_np/cnp_dscp",
        "/sys/class/net/*/device/numa_node",
    ],
    "infiniband": [
        "/sys/class/infiniband/*/fw_ver", "/sys/class/infiniband/*/hca_type", "/sys/class/infiniband/*/board_id",
        "/sys/class/infiniband/*/node_guid", "/sys/class/infiniband/*/ports/*/state",
        "/sys/class/infiniband/*/ports/*/phys_state", "/sys/class/infiniband/*/ports/*/rate",
        "/sys/class/infiniband/*/ports/*/link_layer", "/sys/class/infiniband/*/ports/*/lid",
        "/sys/class/infiniband/*/ports/*/sm_lid", "/sys/class/infiniband/*/tc/*/traffic_class",
        "/sys/class/infiniband/*/device/numa_node",
    ],
    "pci": [
        "/sys/bus/pci/devices/*/current_link_speed", "/sys/bus/pci/devices/*/current_link_width",
        "/sys/bus/pci/devices/*/max_link_speed", "/sys/bus/pci/devices/*/max_link_width",
        "/sys/bus/pci/devices/*/numa_node",
    ],
}  # fmt: skip
INTERESTING_PCI = ("0x02", "0x03", "0x06", "0x12")  # network, display, bridge, accelerator


def main():
    """Read the parameters, gather, answer."""
    module = AnsibleModule(
        argument_spec={
            "timeout_seconds": {"type": "float", "default": 20},
            "interval_seconds": {"type": "float", "default": 1},
            "python": {"type": "str", "default": ""},
            "folders": {"type": "list", "elements": "str", "default": ["/", "/tmp"]},
            "listen_ports": {"type": "list", "elements": "int", "default": []},
            "listen_seconds": {"type": "float", "default": 60},
            "listen_connections": {"type": "int", "default": 0},
            "reach": {"type": "list", "elements": "list", "default": []},
            "reach_ports": {"type": "list", "elements": "int", "default": []},
            "expectations": {"type": "dict", "default": {}},
            "sent_at": {"type": "float"},
            "environment_variables": {"type": "dict", "default": {}},
            "prefix": {"type": "list", "elements": "str", "default": []},
            "packed": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    options = module.params
    if options["reach"]:
        module.exit_json(
            changed=False, reached=reach(options["reach"], options["reach_ports"], options["timeout_seconds"])
        )
    facts = gather(options)
    if options["packed"]:
        text = base64.b64encode(zlib.compress(json.dumps(facts).encode("utf-8"), 6)).decode("ascii")
        module.exit_json(changed=False, packed=text, sent_at=options["sent_at"], address=own_address(facts))
    module.exit_json(changed=False, facts=facts, sent_at=options["sent_at"])


def gather(options):
    """All readings of this host."""
    begun, wall = time.monotonic(), time.time()
    environment = dict(os.environ, LC_ALL="C", LANG="C")
    environment["PATH"] = environment.get("PATH", "") + ":" + SYSTEM_FOLDERS
    environment.update({str(name): str(value) for name, value in options["environment_variables"].items()})
    runner = Runner(environment, options["timeout_seconds"])
    ports = options["listen_ports"]
    readings = {"listening": listen(ports, options["listen_seconds"], options["listen_connections"])}
    folders = [(folder, Apart(file_system, folder)) for folder in list(options["folders"]) + ["/dev/shm"]]
    for name, command in commands(options, environment["PATH"]):
        runner.start(name, command)
    count = counters if counters() or not options["prefix"] else lambda: queried_counters(options, environment)
    before = count()
    counted = time.monotonic()
    for name, patterns in FILES.items():
        readings[name] = {"status": "ok", "values": read_files(patterns)}
    for name, function in VALUES.items():
        readings[name] = guarded(function, options)
    readings.update(file_systems(folders, begun + options["timeout_seconds"]))
    if before:
        time.sleep(max(0.0, options["interval_seconds"] - (time.monotonic() - counted)))
        readings["counters"] = {
            "status": "ok", "before": before, "after": count(), "seconds": time.monotonic() - counted
        }  # fmt: skip
    readings.update(runner.finish())
    return {
        "schema": SCHEMA,
        "hostname": socket.gethostname(),
        "clock": wall,
        "seconds": round(time.monotonic() - begun, 3),
        "uid": os.geteuid(),
        "module_python": ".".join(map(str, sys.version_info[:3])),
        "expectations": options["expectations"],
        "readings": readings,
    }


def commands(options, path):
    """Every program to run with its command line; under the prefix where it speaks to the fabric."""
    for name, command in PROGRAMS.items():
        yield name, (options["prefix"] + command if name in RDMA_PROGRAMS else command)
    python = options["python"] or next(
        (found for found in (shutil.which(n, path=path) for n in ("python3", "python")) if found), "python3"
    )
    yield "python", [python, "-c", PYTHON_FACTS % (DISTRIBUTIONS,)]
    for interface in sorted(rdma_interfaces()):
        yield "mlnx_qos:" + interface, ["mlnx_qos", "-i", interface]
        yield "dcb_pfc:" + interface, ["dcb", "-j", "pfc", "show", "dev", interface]
    for device in sorted(os.listdir("/sys/class/infiniband")) if os.path.isdir("/sys/class/infiniband") else []:
        yield "cma_roce_tos:" + device, ["cma_roce_tos", "-d", device]


class Runner(object):
    """Programs that run at the same time, each with its time limit and in a session of its own."""

    def __init__(self, environment, seconds):
        self.environment, self.seconds, self.threads, self.results = environment, seconds, [], {}
        self.processes = []

    def start(self, name, command):
        """Start a program in a thread of its own."""
        thread = threading.Thread(target=self._run, args=(name, command))
        thread.daemon = True
        self.threads.append(thread)
        thread.start()

    def finish(self):
        """What they all said. Nobody is waited for longer than the limit and a little.

        Where who asked is gone, as after Ctrl-C there, all are killed and this process ends.
        """
        deadline = time.monotonic() + self.seconds + 5
        for thread in self.threads:
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(min(0.5, max(0.0, deadline - time.monotonic())))
                if thread.is_alive() and is_output_closed():
                    for process in self.processes:
                        end_group(process)
                    os._exit(1)
        return dict(self.results)

    def _run(self, name, command):
        begun = time.monotonic()
        self.results[name] = {"status": "timeout", "seconds": self.seconds, "text": ""}
        answer = run(command, self.environment, self.seconds, FILTERS.get(name), self.processes.append)
        answer["seconds"] = round(time.monotonic() - begun, 3)
        self.results[name] = answer


def run(command, environment, seconds, keep=None, started=None):
    """Run a program to its end or its time limit, whichever is first. ``keep`` leaves of its output what is wanted.

    ``started`` is told of the process.
    """
    program = shutil.which(command[0], path=environment["PATH"])
    if program is None:
        return {"status": "missing", "text": "", "error": "%s is not installed" % command[0]}
    try:
        process = subprocess.Popen(
            [program] + command[1:], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, close_fds=True, cwd="/",
        )  # fmt: skip
    except OSError as error:
        return {"status": "failed", "text": "", "error": str(error)}
    if started is not None:
        started(process)
    try:
        out, errors = printed(process, time.monotonic() + seconds)
    except subprocess.TimeoutExpired:
        end(process)
        return {"status": "timeout", "text": "", "error": "%s did not end within %g s" % (command[0], seconds)}
    except OverflowError:
        end(process)
        return {"status": "failed", "text": "", "error": "%s printed more than %d MiB" % (command[0], MOST_BYTES >> 20)}
    text = out.decode("utf-8", "replace")
    text = keep(text) if keep else text
    if len(text) > MOST_CHARACTERS:
        return {"status": "failed", "text": "", "error": "%s printed %d characters" % (command[0], len(text))}
    status = "ok" if process.returncode == 0 else "failed"
    said = errors.decode("utf-8", "replace").strip()[:2000]
    if status == "failed" and re.search(
        r"[Pp]ermission denied|not permitted|must be root|need to be root", said + text[:2000]
    ):
        status = "denied"
    return {"status": status, "text": text, "rc": process.returncode, "error": said}


def printed(process, deadline):
    """Both outputs of a program that ended. Raises TimeoutExpired, and OverflowError where they have no end."""
    found = {process.stdout: [], process.stderr: []}
    size, still = 0, list(found)
    while still:
        left = deadline - time.monotonic()
        ready = select.select(still, [], [], max(0.0, left))[0]
        if left <= 0 or not ready:
            raise subprocess.TimeoutExpired(process.args, 0)
        for stream in ready:
            piece = os.read(stream.fileno(), 1 << 20)
            found[stream].append(piece)
            size += len(piece)
            if not piece:
                still.remove(stream)
        if size > MOST_BYTES:
            raise OverflowError
    process.wait(timeout=max(0.1, deadline - time.monotonic()))
    for stream in found:
        stream.close()
    return b"".join(found[process.stdout]), b"".join(found[process.stderr])


def end(process):
    """Kill a program with all that it started. One that hangs in the kernel is left to it."""
    end_group(process)
    for stream in (process.stdout, process.stderr):
        stream.close()
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        pass


def end_group(process):
    """Kill a program that has not been waited for, with all that it started."""
    try:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass


def is_output_closed():
    """Whether nobody reads what this process says any more: the connection that it was asked by is gone."""
    poller = select.poll()
    poller.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))


class Apart(object):
    """A function in a process of its own, since it may never come back: as from a file system without its server.

    What it returns comes through a pipe as JSON. It has none of our outputs: one that the kernel holds would keep them.
    """

    def __init__(self, function, *arguments):
        self.reader, writer = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            try:
                devnull = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(devnull, descriptor)
                os.write(writer, json.dumps(guarded(lambda _: function(*arguments), None)).encode("ascii"))
            finally:
                os._exit(0)
        os.close(writer)

    def answer(self, deadline):
        """What ``guarded`` made of it; a timeout where it did not end by then, and is killed."""
        ready = select.select([self.reader], [], [], max(0.0, deadline - time.monotonic()))[0]
        said = os.read(self.reader, 65536) if ready else b""
        os.close(self.reader)
        if not ready:
            os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0 if ready else os.WNOHANG)
        if not ready:
            return {"status": "timeout", "error": "no answer in time"}
        return json.loads(said) if said else {"status": "failed", "error": "it ended without an answer"}


def guarded(function, options):
    """What a function found, or why it did not."""
    try:
        return {"status": "ok", "value": function(options)}
    except Exception as error:  # noqa: BLE001 - a fact that cannot be had is reported, and the others still are
        return {"status": "failed", "error": "%s: %s" % (type(error).__name__, error)}


def read_files(patterns):
    """Contents of files by path; None for one that is there and cannot be read."""
    found = {}
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)) if "*" in pattern else [pattern]:
            if path.startswith("/sys/bus/pci") and not interesting(os.path.dirname(path)):
                continue
            try:
                with open(path, "rb") as file:
                    found[path] = file.read(65536).decode("utf-8", "replace").strip()
            except (OSError, IOError) as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    found[path] = None
    return found


def interesting(folder):
    """Whether a PCI device is a NIC, a GPU or a bridge."""
    try:
        with open(os.path.join(folder, "class")) as file:
            return file.read().startswith(INTERESTING_PCI)
    except (OSError, IOError):
        return False


def counters():
    """Port counters by path, as numbers."""
    found = {}
    for pattern in (PORT_COUNTERS, HARDWARE_COUNTERS):
        for path in glob.glob(pattern):
            try:
                with open(path) as file:
                    found[path[len("/sys/class/infiniband/") :]] = int(file.read())
            except (OSError, IOError, ValueError):
                pass
    return found


def queried_counters(options, environment):
    """Counters of ports that are not in sysfs, as those of a simulated fabric: asked of the port by perfquery."""
    found = {}
    seconds = options["timeout_seconds"]
    states = run(options["prefix"] + ["ibstat"], environment, seconds)
    for device, port, lid in re.findall(r"CA '(.+?)'.*?Port (\d+):.*?Base lid: (\d+)", states["text"], re.DOTALL):
        answer = run(options["prefix"] + ["perfquery", "-x", lid, port], environment, seconds)
        plain = run(options["prefix"] + ["perfquery", lid, port], environment, seconds)
        for name, value in re.findall(r"^(\w+):\.*(\d+)$", answer["text"] + "\n" + plain["text"], re.MULTILINE):
            if name in QUERIED_COUNTERS:
                found["%s/ports/%s/counters/%s" % (device, port, QUERIED_COUNTERS[name])] = int(value)
    return found


def rdma_interfaces():
    """Network interfaces of RDMA devices, with their devices: {"ens1f0": "mlx5_0"}."""
    found = {}
    for path in glob.glob("/sys/class/infiniband/*/device/net/*"):
        found[os.path.basename(path)] = path.split("/")[4]
    return found


def memory_limit(name):
    """Soft and hard limit of this session; -1 is unlimited."""
    return list(resource.getrlimit(getattr(resource, name)))


def own_address(facts):
    """The address of the default route's interface, else of the first that is no loopback; else empty."""
    found = facts["readings"]["addresses"].get("value") or {}
    default = facts["readings"]["default_interface"].get("value")
    others = [address for name, address in sorted(found.items()) if name != "lo"]
    return found.get(default) or (others[0] if others else "")


def uninterruptible(_options):
    """Processes in state D, twice within a tenth of a second: [[pid, name], ...]."""
    first = blocked()
    time.sleep(0.1)
    return [[pid, name] for pid, name in blocked().items() if pid in first]


def blocked():
    """Processes in state D: {pid: name}."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, errors="replace") as file:  # a process may call itself anything
                text = file.read()
        except (OSError, IOError):
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        if rest.split()[:1] == ["D"]:
            found[path.split("/")[2]] = name
    return found


def file_system(folder):
    """Size and room in bytes of the file system of a folder; None where there is no such folder."""
    if not os.path.isdir(folder):
        return None
    state = os.statvfs(folder)
    return {
        "total": state.f_blocks * state.f_frsize, "free": state.f_bavail * state.f_frsize,
        "inodes": state.f_files, "inodes_free": state.f_favail,
    }  # fmt: skip


def file_systems(folders, deadline):
    """Those of folders that are there, in one reading; a reading of its own for each that does not answer."""
    found, readings = {}, {}
    for folder, apart in folders:
        answer = apart.answer(deadline)
        if answer["status"] == "ok":
            if answer["value"] is not None:
                found[folder] = answer["value"]
        else:
            readings["file_system:" + folder] = answer
    readings["file_systems"] = {"status": "ok", "value": found}
    return readings


def gids(_options):
    """The GID table without its empty entries: [[device, port, index, gid, type, interface], ...]."""
    rows = []
    for path in glob.glob("/sys/class/infiniband/*/ports/*/gids/*"):
        parts = path.split("/")
        device, port, index = parts[4], parts[6], parts[8]
        gid = first_line(path)
        if not gid or gid.replace("0", "").replace(":", "") in ("", "fe8"):
            continue
        attributes = "/sys/class/infiniband/%s/ports/%s/gid_attrs/" % (device, port)
        rows.append(
            [
                device,
                int(port),
                int(index),
                gid,
                first_line(attributes + "types/" + index),
                first_line(attributes + "ndevs/" + index),
            ]
        )
    return sorted(rows)


def pkeys(_options):
    """Partition keys without the empty ones: {"mlx5_0/1": ["0xffff"]}."""
    found = {}
    for path in glob.glob("/sys/class/infiniband/*/ports/*/pkeys/*"):
        parts = path.split("/")
        value = first_line(path)
        if value and int(value, 16) & 0x7FFF:
            found.setdefault(parts[4] + "/" + parts[6], []).append(value)
    return {name: sorted(set(values)) for name, values in found.items()}


def devices(_options):
    """Device nodes of RDMA and GPUs, with whether this user may read and write them."""
    patterns = ("/dev/infiniband/*", "/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/gdrdrv", "/dev/kfd")
    paths = [path for pattern in patterns for path in glob.glob(pattern) if not os.path.isdir(path)]
    return {path: os.access(path, os.R_OK | os.W_OK) for path in sorted(paths)}


def default_interface(_options):
    """The interface of the default route, IPv4's before IPv6's; None where there is none."""
    with open("/proc/net/route") as file:
        rows = [line.split() for line in file.read().splitlines()[1:]]
    found = next((row[0] for row in rows if len(row) > 7 and row[1] == "00000000"), None)
    if found is None and os.path.exists("/proc/net/ipv6_route"):
        with open("/proc/net/ipv6_route") as file:
            rows = [line.split() for line in file]
        found = next(
            (row[9] for row in rows if len(row) > 9 and row[0] == "0" * 32 and row[1] == "00" and row[9] != "lo"), None
        )
    return found


def addresses(_options):
    """The IPv4 address of each interface that has one, else a global IPv6 address."""
    import fcntl

    found = global_addresses()
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name[:15].encode()))  # SIOCGIFADDR
            except (OSError, IOError):
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    finally:
        probe.close()
    return found


def global_addresses():
    """A global IPv6 address of each interface that has one."""
    found = {}
    try:
        with open("/proc/net/if_inet6") as file:
            rows = [line.split() for line in file]
    except (OSError, IOError):
        return {}
    for row in rows:
        if len(row) == 6 and row[3] == "00":
            found.setdefault(row[5], socket.inet_ntop(socket.AF_INET6, bytes(bytearray.fromhex(row[0]))))
    return found


def sharp(_options):
    """Whether SHARP's library and NCCL's plugin for it are installed."""
    names = ("libsharp.so", "libsharp_coll.so", "libnccl-net.so")
    folders = (
        "/opt/mellanox/sharp/lib",
        "/opt/hpcx/sharp/lib",
        "/opt/hpcx/nccl_rdma_sharp_plugin/lib",
        "/usr/lib",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/local/lib",
    )
    return sorted(path for folder in folders for name in names for path in glob.glob(os.path.join(folder, name + "*")))


def dma_buf(_options):
    """Kernel configuration of what DMA-BUF needs, where the kernel tells: {"CONFIG_PCI_P2PDMA": "y", ...}."""
    path = "/boot/config-" + os.uname()[2]
    with open(path) as file:
        pairs = (
            line.strip().split("=", 1)
            for line in file
            if line.startswith(("CONFIG_DMABUF", "CONFIG_PCI_P2PDMA", "CONFIG_DMA_SHARED"))
        )
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def is_virtual(_options):
    """Whether this is a virtual machine, by the CPU, else by the name of the machine; None where neither tells."""
    with open("/proc/cpuinfo") as file:
        flags = next((line for line in file if line.startswith("flags")), None)
    if flags is not None:
        return " hypervisor" in flags
    name = (
        (first_line("/sys/class/dmi/id/sys_vendor") or "") + " " + (first_line("/sys/class/dmi/id/product_name") or "")
    )
    return bool(re.search(r"KVM|QEMU|VMware|Virtual Machine|Google Compute|Xen", name)) if name.strip() else None


def pci_devices(_options):
    """What the kernel knows of NICs, GPUs and bridges beside lspci: {address: [the bridge above, IOMMU's type]}."""
    found = {}
    for path in glob.glob("/sys/bus/pci/devices/*"):
        if interesting(path):
            above = os.path.basename(os.path.dirname(os.path.realpath(path)))
            bridge = above if re.match(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$", above) else None
            found[os.path.basename(path)] = [bridge, first_line(path + "/iommu_group/type")]
    return found


def kernel_release(_options):
    """The running kernel."""
    return os.uname()[2]


def first_line(path):
    """The first line of a file; None where it cannot be read."""
    try:
        with open(path) as file:
            return file.readline().strip()
    except (OSError, IOError):
        return None


VALUES = {
    "memlock": lambda _: memory_limit("RLIMIT_MEMLOCK"),
    "nofile": lambda _: memory_limit("RLIMIT_NOFILE"),
    "uninterruptible": uninterruptible,
    "gids": gids,
    "pkeys": pkeys,
    "devices": devices,
    "rdma_interfaces": lambda _: rdma_interfaces(),
    "rdma_devices": lambda _: (
        sorted(os.listdir("/sys/class/infiniband")) if os.path.isdir("/sys/class/infiniband") else []
    ),
    "default_interface": default_interface,
    "addresses": addresses,
    "sharp": sharp,
    "dma_buf": dma_buf,
    "is_virtual": is_virtual,
    "pci_devices": pci_devices,
    "kernel_release": kernel_release,
    "cpu_count": lambda _: os.cpu_count(),
}


def keep_kernel_messages(text):
    """The newest two thousand messages that a check may want."""
    return "\n".join([line for line in text.splitlines() if KERNEL_MESSAGES.search(line)][-2000:])


def keep_packages(text):
    """Packages that a check or the comparison of hosts may want, of those that are installed."""
    lines = (line.rpartition(" ") for line in text.splitlines() if PACKAGES.match(line))
    return "\n".join(sorted(line for line, _, state in lines if state == "installed"))


def keep_pci(text):
    """Of each NIC, GPU and bridge the lines on its link, its access control and its driver."""
    kept = []
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines and re.search(r"\[(?:02|03|06|12)[0-9a-f]{2}\]", lines[0]):
            kept.append("\n".join([lines[0]] + [
                line for line in lines[1:]
                if re.search(r"Lnk(?:Cap|Sta|Ctl):|MaxReadReq|ACSC|ATSC|Kernel driver|NUMA node|<access denied>", line)
            ]))  # fmt: skip
    return "\n\n".join(kept)


def keep_rules(text):
    """Policies, and the rules of the input chain that refuse: the thousands of a container network are none of ours."""
    return "\n".join(
        line for line in text.splitlines()
        if re.search(r"^:INPUT |^-A INPUT .*-j (?:DROP|REJECT)|hook input", line)
    )  # fmt: skip


FILTERS = {
    "dmesg": keep_kernel_messages, "dpkg": keep_packages, "rpm": keep_packages, "lspci": keep_pci,
    "iptables": keep_rules, "nft": keep_rules,
}  # fmt: skip


def listen(ports, seconds, connections=0):
    """Listen on ports in a process of its own that ends by itself. Says which could be had: {"6379": "listening"}.

    One that an earlier preflight left, since a host did not call it, is asked to end first.
    """
    sockets, states = [], {}
    door = listeners_door() if ports else None
    for port in ports:
        try:
            listener = listening_socket(port)
        except (OSError, IOError, OverflowError) as error:
            states[str(port)] = "in use" if getattr(error, "errno", None) == errno.EADDRINUSE else str(error)
            continue
        states[str(port)] = "listening"
        sockets.append(listener)
    if sockets and os.fork() == 0:
        hold(sockets, seconds, connections, door)
    for listener in sockets + ([door] if door is not None else []):
        listener.close()
    return {"status": "ok", "value": states, "seconds": seconds}


def listeners_door():
    """A socket at which the listener can be asked to end; one that is there already has ended. None where it stays."""
    name = "\0raybench-preflight-listener-%d" % os.geteuid()
    for _ in range(20):
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            door.bind(name)
            door.listen(8)
            return door
        except (OSError, IOError):
            door.close()
        try:
            other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            other.settimeout(1)
            other.connect(name)
            other.recv(1)  # comes back when it has ended
            other.close()
        except (OSError, IOError):
            pass
        time.sleep(0.02)
    return None


def listening_socket(port):
    """A socket that listens for IPv6 and IPv4, or for IPv4 alone where the kernel has no IPv6."""
    try:
        listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        address = "::"
    except (OSError, IOError):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        address = "0.0.0.0"
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(256)
    except Exception:
        listener.close()
        raise
    return listener


def hold(sockets, seconds, connections, door):
    """Be the listening process: accept and close, until the time is over or all have called. Never returns."""
    try:
        os.setsid()
        devnull = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(devnull, descriptor)
        signal.alarm(int(seconds) + 1)
        deadline = time.monotonic() + seconds
        missing = {listener: connections or float("inf") for listener in sockets}
        while missing and time.monotonic() < deadline:
            waited = list(missing) + ([door] if door is not None else [])
            for listener in select.select(waited, [], [], max(0.0, deadline - time.monotonic()))[0]:
                if listener is door:
                    sockets.append(door.accept()[0])  # learns by its closing, with all the others, that this has ended
                    deadline = 0
                    break
                listener.accept()[0].close()
                missing[listener] -= 1
                if missing[listener] <= 0:
                    del missing[listener]
                    listener.close()
    finally:
        os._exit(0)


def reach(hosts, ports, seconds):
    """Try every port of every host at once: [{"host", "port", "answer", "seconds"}, ...]."""
    results, threads = [], []
    for host in hosts:
        for port in ports:
            thread = threading.Thread(target=lambda h, p: results.append(connect(h, p, seconds)), args=(host, port))
            thread.daemon = True
            threads.append(thread)
            thread.start()
    deadline = time.monotonic() + seconds + 2
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return sorted(results, key=lambda result: (result["host"], result["port"]))


def connect(host, port, seconds):
    """What came of trying a host's addresses in turn, until one answers: "connected", "refused", "timed out", ...

    The address that it is managed at may be one that other hosts do not reach. Ours is none of it: behind the same
    translation all hosts call themselves the same.
    """
    begun = time.monotonic()
    ours = set(guarded(addresses, None).get("value", {}).values())
    named = [str(one).strip("[]") for one in host[1:2] if one]  # preflight_address is the only one where it is set
    other = [str(one).strip("[]") for one in host[2:] if one]
    tried = named or [one for one in dict.fromkeys(other) if one not in ours] or [str(host[0])]
    answers = []
    for address in tried:
        answers.append(attempt(address, port, seconds / len(tried)))
        if answers[-1] == "connected":
            break
    told = next((one for one in answers if not one.startswith("name ")), answers[-1])
    answer = answers[-1] if answers[-1] == "connected" else told
    return {"host": str(host[0]), "port": port, "answer": answer, "seconds": round(time.monotonic() - begun, 3)}


def attempt(address, port, seconds):
    """What came of connecting to an address."""
    try:
        socket.create_connection((address, port), timeout=seconds).close()
        answer = "connected"
    except socket.gaierror:
        answer = "name %s is not known there" % address
    except socket.timeout:
        answer = "timed out"
    except ConnectionRefusedError:
        answer = "refused"
    except (OSError, IOError, UnicodeError) as error:
        answer = str(error)
    return answer


if __name__ == "__main__":
    main()
