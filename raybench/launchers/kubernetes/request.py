"""What is asked of Kubernetes for a run. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from raybench.errors import UsageError, known_names
from raybench.units import parse_bytes

Form = Literal["pods", "rayjob"]
FORMS: tuple[Form, ...] = ("pods", "rayjob")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
GPU = "nvidia.com/gpu"
# Shared memory: NCCL takes about 33 MiB a pair of ranks of a node (nccl-tests in containers), gloo and torch's loaders
# more; Ray's object store wants 30 % of the memory. The pods' tmpfs counts as their memory only as far as it is used.
_SHM_PER_RANK = 2 * 2**30
_LEAST_SHM = 4 * 2**30
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}(?:/|$)){_DNS_LABEL}(?:\.{_DNS_LABEL})*"
# A job's is that of its service, too, which begins with a letter, and leaves room of 63 for what controllers append.
_NAMES = {
    "job-name": (
        r"[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?",
        "small letters, digits and -, a letter first, at most 40 of them",
    ),
    "namespace": (_DNS_LABEL, "small letters, digits and -, at most 63 of them"),
    "queue": (rf"(?=.{{1,63}}$){_SUBDOMAIN}", "small letters, digits, - and ., at most 63 of them"),
    "image-pull-secret": (_SUBDOMAIN, "small letters, digits, - and ., at most 253 of them"),
}
_QUALIFIED = rf"{_SUBDOMAIN}/[a-zA-Z0-9](?:[-_.a-zA-Z0-9]{{0,61}}[a-zA-Z0-9])?"
_LABEL = re.compile(rf"{_QUALIFIED}|[a-zA-Z0-9](?:[-_.a-zA-Z0-9]{{0,61}}[a-zA-Z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)?")
_DEVICE = re.compile(_QUALIFIED)  # an extended resource, of which there are whole ones alone
_OWN_RESOURCE = re.compile(r"cpu|memory|ephemeral-storage|hugepages-[0-9]{1,6}[KMGT]i")
_WHOLE = re.compile(r"[0-9]{1,12}(?:k|[MGTP]|[KMGTP]i)?")
_QUANTITY = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,3})?(?:m|k|[MGTP]|[KMGTP]i)?")
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,400}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesRequest:
    """A run's pods. ``nodes`` of them, each on a node of its own, with ``gpus_per_node`` ranks (0: one on the CPU).

    ``resources`` of each pod beside GPUs, such as ``{"rdma/rdma_shared_device_a": "1"}``, ``cpu`` and ``memory``.
    ``tolerations``: ``KEY[=VALUE][:EFFECT]``. ``queue``: a LocalQueue of Kueue. ``shm_bytes``: of /dev/shm, by need
    where it is None. Raises UsageError for what the API server would refuse.
    """

    form: Form = "pods"
    name: str = "raybench"
    namespace: str | None = None
    image: str
    nodes: int = 1
    gpus_per_node: int = 0
    gpu_resource: str = GPU
    resources: Mapping[str, str] = field(default_factory=dict)
    shm_bytes: int | None = None
    tolerations: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None
    pull_secret: str | None = None
    host_network: bool = False
    time_limit_seconds: int = 4 * 3600

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise UsageError(f"--form '{self.form}' is not known; {known_names(self.form, FORMS)}")
        for option, number, least in (("nodes", self.nodes, 1), ("gpus-per-node", self.gpus_per_node, 0)):
            if not least <= number <= 100_000:
                raise UsageError(f"--{option} {number} is not a number of them; give {least} or more")
        self._check_names()
        for name, quantity in self.resources.items():
            _check_resource(name, quantity)
        if not _DEVICE.fullmatch(self.gpu_resource):
            raise UsageError(f"--gpu-resource {self.gpu_resource!a} is not VENDOR/NAME, such as {GPU} or amd.com/gpu")
        for name, value in self.node_selector.items():
            if not _LABEL.fullmatch(name) or not _LABEL_VALUE.fullmatch(value):
                raise UsageError(f"--node-selector {name}={value} is not LABEL=VALUE of a node")
        for text in self.tolerations:
            toleration(text)

    def _check_names(self) -> None:
        given = (self.name, self.namespace, self.queue, self.pull_secret)
        for (option, (form, words)), value in zip(_NAMES.items(), given, strict=True):
            if value is not None and not re.fullmatch(form, value):
                raise UsageError(f"--{option} {value!a} is not a name in Kubernetes: {words}")
        if not _IMAGE.fullmatch(self.image):
            raise UsageError(f"--image {self.image!a} is not the name of an image, such as registry.example/raybench:1")

    @property
    def ranks_per_node(self) -> int:
        """One a GPU; without GPUs one a node."""
        return max(self.gpus_per_node, 1)

    @property
    def shared_memory_bytes(self) -> int:
        """Of /dev/shm, which is 64 MiB where nobody asks for more."""
        needed = max(_LEAST_SHM, self.ranks_per_node * _SHM_PER_RANK)
        return needed if self.shm_bytes is None else self.shm_bytes


def _check_resource(name: str, quantity: str) -> None:
    """Raises UsageError for a resource that no container can have, such as half a device."""
    if _OWN_RESOURCE.fullmatch(name) or _DEVICE.fullmatch(name):
        form, kind = (_WHOLE, "a whole number") if "/" in name else (_QUANTITY, "a quantity")
        if form.fullmatch(quantity):
            return
        raise UsageError(f"--resource {name}={quantity}: {quantity!a} is not {kind}, as in rdma/hca_shared=1 or cpu=32")
    raise UsageError(
        f"--resource {name}={quantity} is not NAME=QUANTITY, such as rdma/hca_shared=1 or cpu=32: names are cpu, "
        "memory, ephemeral-storage, hugepages-2Mi, or those of devices, with a / in them"
    )


def toleration(text: str) -> dict[str, str]:
    """``nvidia.com/gpu``, ``nvidia.com/gpu:NoSchedule`` or ``team=ml:NoSchedule``. Raises UsageError for others."""
    rest, colon, effect = text.rpartition(":")
    key, equals, value = (rest if colon else text).partition("=")
    if not _LABEL.fullmatch(key) or not _LABEL_VALUE.fullmatch(value) or (colon and effect not in EFFECTS):
        raise UsageError(f"--toleration {text!a} is not KEY[=VALUE][:EFFECT], such as nvidia.com/gpu:NoSchedule")
    found = {"key": key, "operator": "Equal", "value": value} if equals else {"key": key, "operator": "Exists"}
    return found | ({"effect": effect} if colon else {})


def pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """``NAME=VALUE`` texts as a mapping. Raises UsageError for one without a name or a value."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--{option} {text!a} is not NAME=VALUE")
        found[name] = value
    return found


def shm_of(text: str | None) -> int | None:
    """``16G`` in bytes."""
    return None if text is None else parse_bytes(text)
