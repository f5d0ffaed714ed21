"""What tools of a fabric's management say of its ports: one rule a kind of fault."""

from raybench.finding_rules.rule import MeasuredRule, advice

_SOURCE = "Source: ibdiagnet, UFM, iblinkinfo or ibqueryerrors, read by raybench fabric import."

FABRIC_PORT_DOWN = MeasuredRule(
    id="fabric-port-down",
    title="A port of the fabric is down, or waits for a subnet manager",
    severity="critical; warning where the tool only warns",
    text=f"""
A port that should carry traffic does not.

Symptom: a host's port is down while the same port of most hosts is up, a port with a known neighbour is down, a link
is up and its port stays in Init or Armed, or the tool calls a link bad.

Why: cable, transceiver, switch port or NIC; in Init the subnet manager does not reach it.

Not when: a port of a switch has nothing plugged in, or the same port is down on most hosts, as the second of many NICs.

{_SOURCE}
""",
    recommended=advice(
        "look-at-port",
        "reseat or replace cable and transceiver, try another switch port; in Init look in the subnet manager's log "
        "for the port's GUID",
        "mlxlink -d <device> -m",
    ),
)
FABRIC_LINK_RATE = MeasuredRule(
    id="fabric-link-rate",
    title="A link of the fabric is slower or narrower than both ends can",
    severity="critical; warning where the tool only warns",
    text=f"""
A link trained to a lower speed or fewer lanes than both of its ends would take part in.

Symptom: the active speed or width is below the best that both ends have enabled; or the tool says that the link could
be more, and most links of its kind are.

Why: a lane or the cable is bad, a dirty connector, or a cable that is not made for the speed.

Not when: one end can no more, or was limited on purpose.

{_SOURCE}
""",
    recommended=advice(
        "retrain-link",
        "clean, reseat or replace the cable and have the port train again; the fault moves with the cable, or stays",
        "ibportstate <lid> <port> reset",
    ),
)
FABRIC_PORT_ERRORS = MeasuredRule(
    id="fabric-port-errors",
    title="A port of the fabric counts errors",
    severity="warning; critical where a link goes down or loses data while the tool looks",
    text=f"""
Error counters of a port are above what a good link collects.

Symptom: symbol errors, receive errors, discards, link recoveries or link failures: more than a few since the counters
were reset, or new ones while the tool looked.

Why: signal quality of the cable or transceiver; discards are congestion, or a receiver that does not take its packets.

Not when: a counter is of packets that were refused by a switch on purpose (relay errors), or of waiting (xmit wait).

{_SOURCE}
""",
    recommended=advice(
        "watch-counters",
        "reset the counters and look again under load: what grows is of now; then clean or replace the cable",
        "ibqueryerrors -k",
    ),
)
FABRIC_BIT_ERRORS = MeasuredRule(
    id="fabric-bit-errors",
    title="A link of the fabric has too many bit errors",
    severity="critical; warning below InfiniBand's limit",
    text=f"""
More bits of a link are wrong than error correction is meant for.

Symptom: the symbol BER (where it is not told, the effective one) is 1e-14 or more, from 1e-12 on critical; or the raw
BER is 1e-5 or more, from 1e-4 on critical; or the tool itself says so.

Why: a cable, transceiver or connector that is dirty, bent, hot or of a bad lot.

Not when: the effective BER alone is high and no symbol error is left: the link sends such blocks again.

{_SOURCE}
""",
    recommended=advice(
        "replace-cable",
        "clean both connectors, then replace the cable or transceiver; the fault moves with it, or stays",
    ),
)
FABRIC_DUPLICATED_GUID = MeasuredRule(
    id="fabric-duplicated-guid",
    title="Two devices have the same GUID",
    severity="critical; warning where the tool only warns",
    text=f"""
A GUID, by which the subnet manager knows a device, is that of two.

Symptom: the tool names a GUID that it met twice, or two nodes are listed with the same one.

Why: firmware burnt with the same GUID, virtual functions set up by copying, or a loop that was cabled by mistake.

Not when: two nodes have the same description: that is a name, and only warned of.

{_SOURCE}
""",
    recommended=advice(
        "burn-guid",
        "give one of the two a GUID of its own, and restart the subnet manager; until then routes are by chance",
        "flint -d <device> -guid <new GUID> sg",
    ),
)
FABRIC_ALARM = MeasuredRule(
    id="fabric-alarm",
    title="The fabric's own management raises an alarm",
    severity="critical; warning where the tool only warns",
    text=f"""
The tool says that something else is wrong, which is given in its own words.

Symptom: an alarm of UFM that is Critical or Warning, a port that OpenSM leaves out as unhealthy, an error or warning of
a stage of ibdiagnet (firmware, partition keys, routing, power supplies).

Why: as the tool says.

Not when: the alarm is of grade Info.

{_SOURCE}
""",
    recommended=advice("do-what-it-says", "do what the tool's own manual says of this message, at the place it names"),
)

RULES = (
    FABRIC_PORT_DOWN,
    FABRIC_LINK_RATE,
    FABRIC_PORT_ERRORS,
    FABRIC_BIT_ERRORS,
    FABRIC_DUPLICATED_GUID,
    FABRIC_ALARM,
)
