"""The numbers in ``(distance 8 > 5)``: which path between GPU and NIC they mean in which version of NCCL.

The scale changed in 2.6, 2.8, 2.12, 2.26, 2.27 and 2.28. Source: NCCL's topo.h of those releases.
"""

Version = tuple[int, int, int]

_SCALES: tuple[tuple[Version, tuple[str, ...]], ...] = (
    ((2, 28, 0), ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")),
    ((2, 27, 0), ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS", "NET", "DIS")),
    ((2, 26, 0), ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")),
    ((2, 12, 0), ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")),
    ((2, 8, 0), ("LOC", "NVL", "NVB", "PIX", "PXB", "PHB", "SYS")),
    ((2, 6, 0), ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "NET")),
    ((2, 4, 0), ("PIX", "PXB", "PHB", "NODE", "SYS")),
)
MEANING = {
    "LOC": "the same device",
    "NVL": "NVLink",
    "NVB": "NVLink through another GPU",
    "C2C": "the chip-to-chip link",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PXN": "the NIC of another GPU over NVLink",
    "P2C": "the processor's chip-to-chip link",
    "PHB": "the PCIe host bridge, through the processor",
    "NODE": "host bridges of one NUMA node",
    "SYS": "the link between processors",
    "NET": "the network",
    "DIS": "no path",
}


def path_name(number: str, version: Version | None) -> str | None:
    """The path that a distance stands for, such as ``PHB``; None for an unknown version or number."""
    if number.isalpha():
        return number if number in MEANING else None
    if version is None or not number.isdigit() or len(number) > 3:
        return None
    scale = next((names for since, names in _SCALES if version >= since), ())
    return scale[int(number)] if int(number) < len(scale) else None
