"""The table of actions: id -> variants, one module a concern.

Settings that a variant may name: amd, container, efa, kubernetes, omnipath, roce, slurm (see
``recommendations.setting_of``).
"""

from collections.abc import Mapping, Sequence

from diagnostics.actions import fabric, gpudirect, launch, machine, network, program
from diagnostics.actions.rows import Row

ACTIONS: Mapping[str, Sequence[Row]] = {
    name: rows
    for module in (network, gpudirect, fabric, launch, machine, program)
    for name, rows in module.ACTIONS.items()
}
