"""Every kind of resource by its name, for what a journal holds."""

from __future__ import annotations

from typing import Any

from ..errors import JournalError
from .file import FileResource
from .kernel import ConfigfsTosResource, ModuleResource, SharedMemoryResource, TrafficClassResource, ValueResource
from .pci import AccessControlResource
from .quality import DcbResource, MlnxQosResource
from .resource import Resource
from .service import PackageResource, UnitResource

KINDS: dict[str, type[Resource]] = {
    each.kind: each
    for each in (
        AccessControlResource,
        ConfigfsTosResource,
        DcbResource,
        FileResource,
        MlnxQosResource,
        ModuleResource,
        PackageResource,
        SharedMemoryResource,
        TrafficClassResource,
        UnitResource,
        ValueResource,
    )
}


def named_resource(kind: str, target: str, state: dict[str, Any] | None) -> Resource:
    """The resource that an entry of a journal is about. Raises JournalError on a kind that this version lacks."""
    if kind not in KINDS:
        raise JournalError(
            f"the journal holds a {kind!r}, which this version of raybench does not know; use a newer one"
        )
    if kind == "package":
        return PackageResource(target, tuple(state or ()))
    return KINDS[kind](target)
