"""Network interfaces, as the kernel shows them below ``/sys/class/net`` (Documentation/ABI/testing/sysfs-class-net)."""

from collections.abc import Mapping
from pathlib import Path

from diagnostics.agent.series import device_of
from diagnostics.agent.sources.base import Sample, SourceUnavailableError
from diagnostics.agent.sources.counter_files import CounterFiles, Parse
from diagnostics.limits import LOOPBACK

MAX_INTERFACES = 64
_OF_BRIDGES = ("bridge", "brport")


def _up(text: bytes) -> int:
    state = text.strip()
    if state not in {b"up", b"down", b"lowerlayerdown"}:
        raise ValueError("the interface does not say")  # "unknown": tunnels, tap devices
    return int(state == b"up")


def _rate(text: bytes) -> float:
    if (megabits := int(text)) <= 0:  # -1: unknown
        raise ValueError("the interface does not say")
    return megabits / 1000


BYTES: Mapping[str, tuple[str, Parse]] = {
    "sent_bytes": ("statistics/tx_bytes", int),
    "received_bytes": ("statistics/rx_bytes", int),
}
ERRORS: Mapping[str, tuple[str, Parse]] = {
    "send_errors": ("statistics/tx_errors", int),
    "receive_errors": ("statistics/rx_errors", int),
    "crc_errors": ("statistics/rx_crc_errors", int),
    "send_drops": ("statistics/tx_dropped", int),
    "receive_drops": ("statistics/rx_dropped", int),
    "receive_misses": ("statistics/rx_missed_errors", int),
    "carrier_changes": ("carrier_changes", int),
    "up": ("operstate", _up),
    "rate_gbit_per_s": ("speed", _rate),
}


class Nics:
    """The interfaces that are hardware; where none is, as in a container, all but the loopback and bridges.

    A bridge and its ports go down with the containers on it, and take nothing along.
    """

    def __init__(self, folder: Path) -> None:
        self._files = CounterFiles(lambda: nic_files(_of_hardware(folder), {**BYTES, **ERRORS}))
        if not len(self._files):
            raise SourceUnavailableError(f"{folder} has no interface but the loopback")

    def read(self) -> Sample:
        """All counters of all interfaces."""
        return Sample(values=self._files.read())

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def interface_bytes(folder: Path) -> Mapping[str, tuple[Path, Parse]]:
    """The files of what all interfaces moved, loopback and bridges too, by the name of their series."""
    return nic_files(sorted(folder.glob("*")), BYTES)


def nic_files(devices: list[Path], metrics: Mapping[str, tuple[str, Parse]]) -> Mapping[str, tuple[Path, Parse]]:
    """The file of each counter, by the name of its series."""
    return {
        f"nic/{device_of(device.name)}/{metric}": (device / name, parse)
        for device in devices
        for metric, (name, parse) in metrics.items()
    }


def _of_hardware(folder: Path) -> list[Path]:
    devices = sorted(device for device in folder.glob("*") if device.name != LOOPBACK)
    own = [device for device in devices if not any((device / kind).exists() for kind in _OF_BRIDGES)]
    return ([device for device in devices if (device / "device").exists()] or own)[:MAX_INTERFACES]
