"""``iblinkinfo`` and ``ibqueryerrors`` of rdma-core's infiniband-diags, on every fabric with a subnet manager."""

import re

from raybench.preflight.subnet.facts import MOST_PORTS, PortFacts, PortKey, Told, counter_name, guid_of

_NODE = re.compile(r"\s*(CA|Switch|Router): (?:(0x[0-9a-f]{1,16}) )?(.*?):?\s*$", re.IGNORECASE)
_LINK = re.compile(
    r'\s*(?:(0x[0-9a-f]{1,16})\s+)?(?:"([^"]{0,200})"\s+)?(\d{1,6})\s+(\d{1,4})\[[^\]]{0,8}\] ==\(\s*(.{0,60}?)\)==>'
    r'\s*(?:(0x[0-9a-f]{1,16})\s+)?(?:(\d{1,6})\s+(\d{1,4}))?\[[^\]]{0,8}\] "([^"]{0,200})" \((.{0,80}?)\s*\)',
    re.IGNORECASE,
)
_STATE = re.compile(r"(?:(\d{1,2})X\s+(\S+) Gbps\s+)?(\w+)/\s*(\w+)")
_SPEEDS = {"2.5": "SDR", "5.0": "DDR", "10.0": "QDR", "10.3125": "FDR10", "14.0625": "FDR", "25.78125": "EDR",
           "53.125": "HDR", "106.25": "NDR", "212.5": "XDR"}  # fmt: skip
_STATES = {"initialize": "Init", "initializing": "Init", "init": "Init", "active": "Active", "armed": "Armed",
           "down": "Down"}  # fmt: skip
_ERRORS_OF = re.compile(r'Errors for (?:(0x[0-9a-f]{1,16}) )?"(.{0,200})"', re.IGNORECASE)
_PORT = re.compile(r"\s+GUID (0x[0-9a-f]{1,16}) port (\w{1,4}):(.*)", re.IGNORECASE)
_COUNTER = re.compile(r"\[(\w{1,60}) == (\d{1,20})(?: \([^)]{0,40}\))?\]")


def is_iblinkinfo(text: str) -> bool:
    """Whether a text is a list of links."""
    return "]==" in text.replace(" ", "") and any(_LINK.match(line) for line in text.splitlines())


def parse_iblinkinfo(text: str) -> Told:
    """Every link, from both ends, also in the form of ``-l``. Sample::

    CA: node4 mlx5_0:
          0xb8599f0300a00009   4   1[  ] ==( 1X   25.78125 Gbps Active/  LinkUp)==>   101   4[  ] "leaf1" (Could be 4X)
    Switch: 0xb8599f0300c00020 leaf2:
             102    2[  ] ==(                Down/ Polling)==>             [  ] "" ( )
    """
    ports: list[PortFacts] = []
    guid, name = "", ""
    is_host: bool | None = None
    for number, line in enumerate(text.splitlines(), 1):
        link = _LINK.match(line)
        node = None if link else _NODE.match(line)
        if node:
            guid, name, is_host = guid_of(node[2] or ""), node[3], node[1].upper() == "CA"
        elif link and len(ports) < MOST_PORTS:
            if link[2] is not None:
                guid, name, is_host = guid_of(link[1] or ""), link[2].strip(), None
            ports.append(_port(link, guid, name, number, is_host=is_host))
    return Told(ports=tuple(ports), covers=frozenset({"link state", "link rate"} if ports else ()))


def _port(link: re.Match[str], guid: str, name: str, line: int, *, is_host: bool | None) -> PortFacts:
    state = _STATE.fullmatch(link[5].strip())
    return PortFacts(
        key=PortKey(node=name or guid, port=link[4]),
        node=name or guid,
        is_host=is_host,
        peer=PortKey(node=link[9].strip(), port=link[8]) if link[8] and link[9].strip() else None,
        state=_STATES.get(state[3].lower(), "") if state else "",
        physical=state[4] if state else "",
        width=int(state[1]) if state and state[1] else None,
        speed=_SPEEDS.get(state[2] or "", state[2] or "") if state else "",
        could_be=link[10].strip(),
        line=line,
    )


def is_ibqueryerrors(text: str) -> bool:
    """Whether a text is a list of ports with errors, which may be empty."""
    return bool(re.search(r"^## Summary: \d+ nodes checked", text, re.MULTILINE)) or bool(_ERRORS_OF.match(text))


def parse_ibqueryerrors(text: str) -> Told:
    """Counters above the tool's own thresholds. Sample::

    Errors for 0xb8599f0300c00010 "leaf1"
       GUID 0xb8599f0300c00010 port ALL: [SymbolErrorCounter == 500]
       GUID 0xb8599f0300c00010 port 3: [SymbolErrorCounter == 500] [LinkDownedCounter == 2]
    """
    ports: list[PortFacts] = []
    name = ""
    is_host: bool | None = None
    for number, line in enumerate(text.splitlines(), 1):
        node, port = _ERRORS_OF.match(line), _PORT.match(line)
        if node:
            name, is_host = node[2].strip(), node[1] is None  # switches are named with their GUID
        elif port and port[2].isdecimal() and len(ports) < MOST_PORTS:
            pairs = ((counter_name(one), int(value)) for one, value in _COUNTER.findall(port[3]))
            counters = {one: value for one, value in pairs if one}
            key = PortKey(node=name or guid_of(port[1]), port=port[2])
            ports.append(PortFacts(key=key, node=name, is_host=is_host, counters=counters, line=number))
    return Told(ports=tuple(ports), covers=frozenset({"error counters"}))
