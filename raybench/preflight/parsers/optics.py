"""``mlxlink -m -c``, ``ethtool -m`` and ``ethtool -S``: why a link is down, its errors and its modules."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_ROW = re.compile(r"^\s*([A-Za-z][^:]*?)\s*: ?(.*?)\s*$")
_RANGE = re.compile(r"^(-?[\d.,\s-]+?)\s*(?:C|mV|mA|dBm)?\s*\[\s*(-?[\d.]+)\s*\.\.\s*(-?[\d.]+)\s*\]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_DBM = re.compile(r"/\s*(-?(?:inf|[\d.]+))\s*dBm")
NO_LIGHT_DBM = -40.0  # what modules say in place of no light at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Values of a module's lanes, with the limits of its alarms; None where the module names none."""

    values: tuple[float, ...]
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReport:
    """``mlxlink`` of one port, by the names that it prints; ``N/A`` is left out."""

    rows: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str) -> float | None:
        """The number that a row begins with; None where it is absent. 15E-255 stands for no error."""
        match = _NUMBER.match(self.rows.get(name, ""))
        return float(match[0]) if match else None

    def measured(self, name: str) -> Measured | None:
        """Values with their range: ``1.886,1.989,2.281,1.976 [-10.41..6]``."""
        return measured(self.rows.get(name, ""))


def measured(text: str) -> Measured | None:
    """Values of lanes, and the range behind them where there is one."""
    match = _RANGE.match(text)
    values = tuple(float(one) for one in _NUMBER.findall(match[1] if match else text.partition("[")[0]))
    if not values:
        return None
    return Measured(values=values, low=float(match[2]) if match else None, high=float(match[3]) if match else None)


def parse_mlxlink(text: str) -> LinkReport:
    """Sample (ConnectX-7, MFT 4.30; cut)::

    Operational Info
    ----------------
    State                              : Active
    Physical state                     : LinkUp
    FEC                                : Standard RS-FEC - RS(544,514)

    Troubleshooting Info
    --------------------
    Status Opcode                      : 0
    Recommendation                     : No issue was observed

    Physical Counters and BER Info
    ------------------------------
    Effective Physical BER             : 15E-255
    Raw Physical BER                   : 2E-9
    """
    rows: dict[str, str] = {}
    for line in text.splitlines():
        match = _ROW.match(line)
        if match and match[2] not in {"", "N/A", "N/A,N/A", "_N/A"}:
            rows.setdefault(match[1], match[2])
    return LinkReport(rows=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """``ethtool -m``: flags that are on, and measured values."""

    alarms: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    temperature: Measured | None = None
    receive_dbm: tuple[float, ...] = ()


def parse_module(text: str) -> Module:
    """Sample (QSFP28, cut)::

    Module temperature                        : 53.13 degrees C / 127.63 degrees F
    Rcvr signal avg optical power(Channel 1)  : 0.9039 mW / -0.44 dBm
    Module temperature high alarm             : Off
    Laser rx power low alarm   (Channel 1)    : Off
    """
    rows = [(match[1], match[2]) for match in map(_ROW.match, text.splitlines()) if match]
    flags = [(name, value) for name, value in rows if re.search(r"(?:alarm|warning)(?!.*threshold)", name)]
    on = [re.sub(r"\s+", " ", name) for name, value in flags if value.lower().startswith("on")]
    return Module(
        alarms=tuple(name for name in on if "alarm" in name.lower()),
        warnings=tuple(name for name in on if "alarm" not in name.lower()),
        faults=tuple(_faults(rows)),
        temperature=_temperature(dict(rows)),
        receive_dbm=tuple(_receive(rows)),
    )


def _faults(rows: list[tuple[str, str]]) -> Iterator[str]:
    """Of modules with CMIS: ``Rx loss of signal : [ Yes, No, No, No ]``, ``Module State : 0x05 (ModuleFault)``."""
    for name, value in rows:
        if re.match(r"(?:Rx loss|Tx fault|Rx LOS|Tx loss of)", name) and re.search(r"\bYes\b", value):
            yield f"{name} {value}"
        if name.startswith("Module State") and "Fault" in value:
            yield f"{name} {value}"


def _temperature(rows: Mapping[str, str]) -> Measured | None:
    now = measured(rows.get("Module temperature", "").partition(" ")[0])
    high = _NUMBER.match(rows.get("Module temperature high alarm threshold", ""))
    if now is None or now.values == (0.0,):
        return None  # a module without diagnosis says nothing but zeros
    return Measured(values=now.values, high=float(high[0]) if high and float(high[0]) else None)


def _receive(rows: list[tuple[str, str]]) -> Iterator[float]:
    for name, value in rows:
        match = _DBM.search(value)
        if match and re.match(r"(?:Rcvr signal|Receiver signal)", name):
            yield NO_LIGHT_DBM if "inf" in match[1] else float(match[1])


def parse_ethtool_statistics(text: str) -> dict[str, int]:
    """Counters of ``ethtool -S``, those of single queues left out: ``     rx_discards_phy: 58591428329``."""
    rows = re.findall(r"^\s*([a-z_][\w.]*):\s+(\d+)\s*$", text, re.MULTILINE)
    return {name: int(number) for name, number in rows if not re.match(r"(?:rx|tx|ch)\d+_", name)}
