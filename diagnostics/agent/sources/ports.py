"""Ports of RDMA devices: InfiniBand, RoCE and EFA, as the kernel shows them below ``/sys/class/infiniband``.

Names and meaning: InfiniBand specification, volume 1, PortCounters (16.1.3.5); NVIDIA, "Understanding mlx5 Linux
counters"; the kernel's drivers/infiniband/hw/{mlx5/counters.c,efa/efa_verbs.c,bnxt_re/hw_counters.c}.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from diagnostics.agent.sources.base import Sample, SourceUnavailableError
from diagnostics.agent.sources.counter_files import CounterFiles, Parse


def _words(text: bytes) -> int:
    return 4 * int(text)  # port_xmit_data and port_rcv_data count 4-byte words (16.1.3.5)


def _active(text: bytes) -> int:
    return int(int(text.partition(b":")[0]) == 4)  # "4: ACTIVE"


def _rate(text: bytes) -> float:
    return float(text.partition(b" ")[0])  # "400 Gb/sec (4X NDR)"


BYTES: Mapping[str, tuple[tuple[str, Parse], ...]] = {  # the first file that is there counts
    "sent_bytes": (("counters/port_xmit_data", _words), ("hw_counters/tx_bytes", int)),
    "received_bytes": (("counters/port_rcv_data", _words), ("hw_counters/rx_bytes", int)),
}
ERRORS: Mapping[str, tuple[tuple[str, Parse], ...]] = {
    "symbol_errors": (("counters/symbol_error", int),),
    "link_downed": (("counters/link_downed", int),),
    "link_recoveries": (("counters/link_error_recovery", int),),
    "receive_errors": (("counters/port_rcv_errors", int),),
    "remote_physical_errors": (("counters/port_rcv_remote_physical_errors", int),),
    "send_discards": (("counters/port_xmit_discards", int),),
    "send_wait_ticks": (("counters/port_xmit_wait", int),),
    "integrity_errors": (("counters/local_link_integrity_errors", int),),
    "buffer_overruns": (("counters/excessive_buffer_overrun_errors", int),),
    "ack_timeouts": (("hw_counters/local_ack_timeout_err", int),),
    "out_of_sequence": (("hw_counters/out_of_sequence", int), ("hw_counters/oos_drop_count", int)),
    "packet_sequence_errors": (("hw_counters/packet_seq_err", int), ("hw_counters/seq_err_naks_rcvd", int)),
    "implied_sequence_errors": (("hw_counters/implied_nak_seq_err", int),),
    "receiver_not_ready": (("hw_counters/rnr_nak_retry_err", int),),
    "adaptive_retransmissions": (("hw_counters/roce_adp_retrans", int),),
    "retransmitted_packets": (("hw_counters/retrans_pkts", int), ("hw_counters/to_retransmits", int)),
    "retransmit_timeouts": (("hw_counters/retrans_timeout_events", int),),
    "receive_drops": (("hw_counters/rx_drops", int),),
    "cnp_sent": (("hw_counters/np_cnp_sent", int),),
    "cnp_handled": (("hw_counters/rp_cnp_handled", int),),
    "ecn_marked_packets": (("hw_counters/np_ecn_marked_roce_packets", int),),
    "up": (("state", _active),),
    "rate_gbit_per_s": (("rate", _rate),),
}


class Ports:
    """All ports of a machine. ``folder`` is ``/sys/class/infiniband``."""

    def __init__(self, folder: Path) -> None:
        self._files = CounterFiles(partial(port_files, folder, {**BYTES, **ERRORS}))
        if not len(self._files):
            raise SourceUnavailableError(f"{folder} has no port with counters")

    def read(self) -> Sample:
        """All counters of all ports."""
        return Sample(values=self._files.read())

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def port_bytes(folder: Path) -> Mapping[str, tuple[Path, Parse]]:
    """The files of what all ports moved, by the name of their series."""
    return port_files(folder, BYTES)


def port_files(folder: Path, metrics: Mapping[str, tuple[tuple[str, Parse], ...]]) -> Mapping[str, tuple[Path, Parse]]:
    """The file of each counter that a port has, by the name of its series."""
    found = {}
    for port in sorted(folder.glob("*/ports/*")):
        device = f"{port.parent.parent.name}:{port.name}"
        for metric, choices in metrics.items():
            for name, parse in choices:
                if (port / name).exists():
                    found[f"port/{device}/{metric}"] = port / name, parse
                    break
    return found
