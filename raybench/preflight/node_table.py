"""What each check means for its node, and what is to be done there: two literal tables.

``drain``: results may be wrong, jobs crash or hang, or the vendor says to use the device no further. ``degraded``: jobs
run, slower than they could or at a risk. ``nothing``: advice on tuning, or of the moment (a job that runs); where only
some hosts have it, drift makes those degraded. A check that knows a case better says so itself, by
``Judgement.for_node``. A state that one look may see by chance, such as a temperature, is never drain.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from raybench.verdicts import NodeEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAction:
    """What a reader does. ``{host}`` and ``{gpus}`` of the command are quoted for a shell before they are put in."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A check's failure and warning, as a node sees them.

    ``decisive``: a node of which this could not be read, or was not looked at, is unknown and never healthy;
    ``decisive_if_asked``: of an active test, where it was asked for.
    ``command`` stands in for the action's.
    """

    on_fail: NodeEffect
    on_warn: NodeEffect
    action: str
    decisive: bool = False
    decisive_if_asked: bool = False
    command: str = ""


LOOK = "look"
ACTIONS: Mapping[str, NodeAction] = {
    "reset-gpu": NodeAction(
        text="reset the GPU once no job uses it; before Hopper, those of an NVSwitch board all together (without -i)",
        command="ssh {host} sudo nvidia-smi --gpu-reset{gpus}",
    ),
    "reboot": NodeAction(text="reboot the node once no job runs there", command="ssh {host} sudo systemctl reboot"),
    "power-cycle": NodeAction(
        text="take the node's power away and give it back: a reboot alone does not bring such a device back",
        command="ssh {host} sudo ipmitool chassis power cycle",
    ),
    "rma": NodeAction(
        text="have the part replaced; its vendor asks for this report",
        command="ssh {host} sudo nvidia-bug-report.sh",
    ),
    "reseat": NodeAction(text="seat the device or its riser anew; replace it where it stays so"),
    "replace-cable": NodeAction(text="clean or replace the cable or transceiver, or try another switch port"),
    "reconfigure": NodeAction(
        text="set it as on the others",
        command="raybench configure -i hosts.yml --limit {host}",
    ),
    LOOK: NodeAction(
        text="look at it; the check's advice says where",
        command="raybench preflight -i hosts.yml --limit {host} --only {check}",
    ),
}


def _hard(action: str, on_warn: NodeEffect = "degraded", *, decisive: bool = False, command: str = "") -> NodeRow:
    """A failure drains."""
    return NodeRow(on_fail="drain", on_warn=on_warn, action=action, decisive=decisive, command=command)


def _soft(action: str, on_warn: NodeEffect = "nothing", *, decisive: bool = False, command: str = "") -> NodeRow:
    """A failure degrades."""
    return NodeRow(on_fail="degraded", on_warn=on_warn, action=action, decisive=decisive, command=command)


def _test(action: str, command: str = "") -> NodeRow:
    """An active test of results: a failure drains, and a node is not healthy while nobody knows how it came out.

    A speed that cannot be compared, as of a node alone, leaves nothing open about results: it decides nothing.
    """
    return NodeRow(on_fail="drain", on_warn="degraded", action=action, decisive_if_asked=True, command=command)


def _tags(names: str) -> str:
    return f"raybench configure -i hosts.yml --limit {{host}} --tags {names}"


_TEST_AGAIN = "raybench preflight -i hosts.yml --limit {host} --level 2 --only {check}"
_TEST_LONG = "raybench preflight -i hosts.yml --limit {host} --level 3 --only {check}"
_ADVICE_ONLY = NodeRow(on_fail="nothing", on_warn="nothing", action="reconfigure")
_DIFFERS = _soft(LOOK, "degraded")

# By check, else by concern.
NODE_TABLE: Mapping[str, NodeRow] = {
    "host-reachable": NodeRow(
        on_fail="unknown", on_warn="unknown", action=LOOK, decisive=True, command="ssh -v {host} true"
    ),
    "host-expectations": _ADVICE_ONLY,  # of the inventory, not of the node
    "host-login": _ADVICE_ONLY,
    "host-identity": _soft(LOOK),
    "host-clock-spread": _soft("reconfigure", command=_tags("time_sync")),
    "host-ports": _soft(LOOK),
    "host-probe": _soft(LOOK, decisive=True),  # where nvidia-smi hangs, gpu-driver drains
    "host-os": _ADVICE_ONLY,
    "host-kernel": _soft("reconfigure"),
    "host-governor": _ADVICE_ONLY,
    "host-numa-balancing": _ADVICE_ONLY,
    "host-hugepages": _ADVICE_ONLY,
    "host-memory": _hard("rma", "nothing", command="ssh {host} sudo dmidecode -t memory"),
    "host-swap": _soft(LOOK, "degraded"),
    "host-disk": _hard(LOOK, "degraded"),
    "host-folders": _hard(LOOK, "degraded"),
    "host-mounts": _hard(LOOK),
    "host-shm": _hard("reconfigure", "nothing", command=_tags("shared_memory")),
    "host-dstate": _ADVICE_ONLY,
    "host-ecc": _hard("rma", command="ssh {host} sudo ras-mc-ctl --error-count"),
    "host-log": _hard(LOOK, decisive=True, command="ssh {host} sudo dmesg -T"),
    "host-clock": _soft("reconfigure", command=_tags("time_sync")),
    "host-memlock": _soft("reconfigure", command=_tags("memlock")),
    "host-nofile": _soft("reconfigure", command=_tags("nofile")),
    "host-removeipc": _ADVICE_ONLY,
    "host-name": _soft("reconfigure"),
    "host-mtu": _soft("reconfigure", command=_tags("mtu")),
    "host-firewall": _ADVICE_ONLY,
    "pci-link": _soft("reseat", "nothing"),
    "pci-acs": _ADVICE_ONLY,
    "pci-iommu": _ADVICE_ONLY,
    "pci-ats": _ADVICE_ONLY,
    "pci-mrr": _ADVICE_ONLY,
    "gpu-driver": _hard("reboot", decisive=True),
    "gpu-count": _hard("power-cycle", decisive=True),
    "gpu-lost": _hard("reboot", decisive=True),
    "gpu-recovery": _hard("reset-gpu", decisive=True),
    "gpu-cuda": _ADVICE_ONLY,
    "gpu-persistence": _ADVICE_ONLY,
    "gpu-mig": _soft("reconfigure"),
    "gpu-mode": _hard("reconfigure", "nothing", command="ssh {host} sudo nvidia-smi -c DEFAULT"),
    "gpu-power": _soft("reconfigure", "degraded"),
    "gpu-clock-limits": _soft("reconfigure", "degraded", command="ssh {host} sudo nvidia-smi -rac"),
    "gpu-firmware": _soft("rma", "degraded"),
    "gpu-pcie": _soft("reseat", "degraded"),
    "gpu-processes": _soft("reset-gpu"),
    "gpu-ecc": _hard("reset-gpu", decisive=True),
    "gpu-rows": _hard("reset-gpu", decisive=True),
    "gpu-xid": _hard("reset-gpu", decisive=True),
    "gpu-dcgm": _hard(LOOK, command="ssh {host} dcgmi health -g 0 -c"),
    "gpu-log": _hard("reboot"),
    "gpu-clocks": _soft(LOOK, "degraded"),
    "gpu-temperature": _soft(LOOK, "degraded"),
    "gpu-nvlink": _hard("reset-gpu", decisive=True),
    "gpu-nvlink-errors": _soft("reset-gpu", "degraded"),
    "gpu-fabric-health": _hard("reset-gpu"),
    "gpu-fabric": _hard("reconfigure", command="ssh {host} sudo systemctl restart nvidia-fabricmanager"),
    "gpu-peermem": _soft("reconfigure", command=_tags("peer_memory")),
    "gpu-topology": _ADVICE_ONLY,
    "amd-driver": _hard("reboot"),  # where amd-smi tells nothing, gpu-driver leaves the node unknown
    "amd-count": _hard("power-cycle"),
    "amd-ecc": _hard("reboot"),
    "amd-pages": _hard("rma", "degraded"),
    "amd-xgmi": _hard("reboot"),
    "amd-ras": _soft("reboot", "degraded"),
    "amd-xgmi-rate": _soft("reboot", "degraded"),
    "amd-throttle": _soft(LOOK, "degraded"),
    "amd-temperature": _soft(LOOK, "degraded"),
    "amd-limits": _soft("reconfigure", "degraded"),
    "amd-memory": _soft(LOOK),
    "amd-partition": _soft("reconfigure", "degraded"),
    "amd-rccl": _soft("reconfigure"),
    "amd-log": _hard("reboot"),
    "rdma-modules": _hard("reconfigure", command=_tags("rdma_driver")),
    "rdma-nodes": _hard("reconfigure", "nothing", command=_tags("rdma_driver")),
    "rdma-software": _ADVICE_ONLY,
    "rdma-port": _hard("replace-cable", decisive=True),
    "rdma-rate": _soft("replace-cable"),
    "rdma-firmware": _soft("reconfigure"),
    "rdma-layer": _ADVICE_ONLY,
    "rdma-sm": _hard(LOOK),
    "rdma-pkey": _hard(LOOK),
    "rdma-verbs": _hard("reconfigure", command=_tags("rdma_driver")),
    "rdma-link": _soft("replace-cable", "degraded"),  # a port that is down drains by rdma-port
    "rdma-optics": _soft("replace-cable", "degraded"),
    "rdma-ethernet": _soft("replace-cable"),
    "rdma-log": _hard(LOOK, command="ssh {host} sudo dmesg -T"),
    "rdma-flaps": _hard("replace-cable"),
    "rdma-counters": _soft("replace-cable"),
    "rdma-peers": _soft("replace-cable"),
    "rdma-sharp": _soft("reconfigure"),
    "rdma-efa": _hard("reconfigure", "nothing"),
    "rdma-efa-versions": _hard("reconfigure", "degraded"),
    "roce-gid": _hard("reconfigure", "nothing"),
    "roce-mtu": _soft("reconfigure", command=_tags("mtu")),
    "roce-pfc": _soft("reconfigure", command=_tags("roce_qos")),
    "roce-ecn": _soft("reconfigure", command=_tags("roce_qos")),
    "roce-trust": _soft("reconfigure", command=_tags("roce_qos")),
    "test-run": _test(LOOK, _TEST_AGAIN),
    "test-load": _soft(LOOK, "degraded", command=_TEST_AGAIN),
    "test-processor": _soft(LOOK, "degraded", command=_TEST_AGAIN),
    "test-gemm-exact": _test("rma"),
    "test-gemm-repeat": _test("rma"),
    "test-gemm-speed": _soft(LOOK, "degraded", command=_TEST_AGAIN),
    "test-memory-exact": _test("rma"),
    "test-memory-speed": _soft(LOOK, "degraded", command=_TEST_AGAIN),
    "test-transfer-exact": _test("rma"),
    "test-transfer-speed": _soft("reseat", "degraded"),
    "test-nic": _hard(LOOK, "degraded", command="ssh {host} sudo dmesg -T"),
    "test-peer-exact": _test("rma"),
    "test-peer-speed": _soft(LOOK, "degraded", command=_TEST_LONG),
    "test-loopback-exact": _test("rma"),
    "test-loopback-speed": _soft(LOOK, "degraded", command=_TEST_LONG),
    "test-disk-exact": _test("rma"),
    "test-disk-speed": _soft(LOOK, command=_TEST_LONG),
    "test-dcgm": _hard(LOOK, "degraded", command="ssh {host} sudo dcgmi diag -r 2"),
    "test-burn-repeat": _test("rma"),
    "test-burn-speed": _soft(LOOK, "degraded", command=_TEST_LONG),
    "test-burn-state": _soft(LOOK, "degraded", command="ssh {host} nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
    "software": _soft("reconfigure"),
    "drift": _DIFFERS,
}


def row_of(check: str) -> NodeRow | None:
    """The row of a check, else that of its concern; None where neither has one."""
    return NODE_TABLE.get(check) or NODE_TABLE.get(check.partition("-")[0])


def decisive_checks(tests: Collection[str] = ()) -> tuple[str, ...]:
    """Checks without which no node is called healthy. ``tests`` are those of active tests that were asked for."""
    return tuple(name for name, row in NODE_TABLE.items() if row.decisive or (row.decisive_if_asked and name in tests))
