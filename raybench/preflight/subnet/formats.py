"""The formats that ``raybench fabric import`` reads: a format is a line here. A file is of the first that it may be."""

from collections.abc import Callable
from dataclasses import dataclass

from raybench.preflight.subnet.facts import Told
from raybench.preflight.subnet.ibdiagnet_log import is_ibdiagnet_log, parse_ibdiagnet_log
from raybench.preflight.subnet.ibdiagnet_tables import is_db_csv, is_net_dump_ext, parse_db_csv, parse_net_dump_ext
from raybench.preflight.subnet.infiniband_diags import (
    is_iblinkinfo,
    is_ibqueryerrors,
    parse_iblinkinfo,
    parse_ibqueryerrors,
)
from raybench.preflight.subnet.ufm import is_ufm, parse_ufm


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetFormat:
    """What a file may be, and how it is read."""

    title: str
    is_it: Callable[[str], bool]
    parse: Callable[[str], Told]


FORMATS: tuple[SubnetFormat, ...] = (
    SubnetFormat(title="UFM's REST answer (JSON)", is_it=is_ufm, parse=parse_ufm),
    SubnetFormat(title="ibdiagnet2.db_csv", is_it=is_db_csv, parse=parse_db_csv),
    SubnetFormat(title="ibdiagnet2.net_dump_ext", is_it=is_net_dump_ext, parse=parse_net_dump_ext),
    SubnetFormat(title="ibdiagnet2.log", is_it=is_ibdiagnet_log, parse=parse_ibdiagnet_log),
    SubnetFormat(title="iblinkinfo", is_it=is_iblinkinfo, parse=parse_iblinkinfo),
    SubnetFormat(title="ibqueryerrors", is_it=is_ibqueryerrors, parse=parse_ibqueryerrors),
)


def format_of(text: str) -> SubnetFormat | None:
    """What a file is; None for one of no format that is known."""
    return next((one for one in FORMATS if one.is_it(text)), None)
