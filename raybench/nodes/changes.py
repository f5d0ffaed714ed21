"""What changed at a host since it was last right. Pure.

Every check whose verdict changed, and those about what a host has and how it is set whose text did: figures of the
moment, such as temperatures, differ each time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from raybench.documents.preflight import CheckResult
from raybench.verdicts import SEVERITY

Seen = Mapping[str, tuple[str, str]]  # by check: verdict, and what was seen
_MOST_SEEN = 200
BOOT = "host-boot"  # no check of preflight's: which boot of the machine was looked at
_LASTING = {BOOT,
            "host-os", "host-kernel", "host-governor", "host-hugepages", "host-mtu", "host-memlock", "host-nofile",
            "host-name", "host-firewall", "gpu-driver", "gpu-cuda", "gpu-count", "gpu-firmware", "gpu-mode", "gpu-mig",
            "gpu-power", "gpu-clock-limits", "gpu-pcie", "gpu-persistence", "amd-driver", "amd-count", "amd-limits",
            "amd-partition", "rdma-firmware", "rdma-port", "rdma-rate", "rdma-modules", "pci-acs", "pci-iommu",
            "pci-mrr", "roce-gid", "roce-mtu", "roce-pfc", "roce-ecn", "roce-trust"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A check, as it was when the host was last right and as it is. ``verdict`` is empty where it was not made."""

    check: str
    verdict_before: str
    seen_before: str
    verdict: str
    seen: str

    @property
    def line(self) -> str:
        """``gpu-rows: pass (no rows) -> fail (2 rows failed)``."""
        before, now = self.verdict_before or "not looked at", self.verdict or "not looked at"
        return f"{self.check}: {before} ({self.seen_before}) -> {now} ({self.seen})"


def seen_of(checks: tuple[CheckResult, ...], boot_id: str = "") -> dict[str, tuple[str, str]]:
    """What is kept of a host's checks, of one of several parts the worst, and of its boot where that is known."""
    found: dict[str, tuple[str, str]] = {}
    for one in sorted(checks, key=lambda one: SEVERITY.index(one.verdict)):
        found[one.check] = (one.verdict, " ".join(one.seen.split())[:_MOST_SEEN])
    if boot_id:
        found[BOOT] = ("pass", f"boot id {boot_id}"[:_MOST_SEEN])
    return found


def changes(before: Seen, now: Seen) -> tuple[Change, ...]:
    """What differs, changed verdicts first."""
    found = list(_changes(before, now))
    return tuple(sorted(found, key=lambda one: (one.verdict == one.verdict_before, one.check)))


def _changes(before: Seen, now: Seen) -> Iterator[Change]:
    for check in before.keys() | now.keys():
        (old, seen_old), (new, seen_new) = before.get(check, ("", "")), now.get(check, ("", ""))
        lasting = check in _LASTING or check.startswith("software")
        if old != new or (lasting and seen_old != seen_new):
            yield Change(check=check, verdict_before=old, seen_before=seen_old, verdict=new, seen=seen_new)
