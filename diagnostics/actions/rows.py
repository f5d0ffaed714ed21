"""The form of an action's variants, and the addresses of the documents that they lead to."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/"
TROUBLE = NCCL + "troubleshooting.html"
ENV = NCCL + "env.html"
TORCH = "https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"
GDR = "https://docs.nvidia.com/cuda/gpudirect-rdma/"
EFA = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"


class Row(TypedDict):
    """One variant of an action; it may be limited to, or kept out of, settings of the job."""

    text: str
    commands: NotRequired[Sequence[str]]
    link: NotRequired[str]
    only: NotRequired[Sequence[str]]
    never: NotRequired[Sequence[str]]
