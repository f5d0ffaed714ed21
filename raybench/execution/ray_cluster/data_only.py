"""In the driver, what Ray brings from nodes is data: bytes and plain values, and never a pickle.

Ray unpickles what actors return and raise, and the class of an actor found by name. Whoever holds a node, or can write
the head's tables, could so run any program as the user of the driver. Node actors answer in MessagePack, which Ray
carries as raw bytes; everything else is refused here. This reaches into Ray's private classes, and refuses to go on
where a release of Ray has others.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError
from ray.job_config import JobConfig

from raybench.errors import ClusterUnavailableError
from raybench.installation import RAY_TESTED

_REFUSED = "it sent a Python object where data was asked for; nothing of it was read"


class NodeError(RayError):
    """An error on a node, as text: the last line of its traceback."""


class _Job(JobConfig):
    """A job whose workers import nothing from the folder that the driver was called in, which may be anybody's."""

    def _runtime_env_has_working_dir(self) -> bool:
        return True


def join(address: str, actor_class: type) -> None:
    """``ray.init`` at HOST:PORT, and from then on ``accept_data_only``. Raises what they raise."""
    ray.init(
        address=address,
        namespace="raybench",
        job_config=_Job(),
        log_to_driver=False,
        logging_level=logging.CRITICAL,
    )
    # what Ray's daemons have to say of nodes would stand amid a report on standard output; raybench watches them itself
    ray._private.worker.print_to_stdstream = lambda *_, **__: None
    accept_data_only(actor_class)


def accept_data_only(actor_class: type) -> None:
    """Have this process unpickle nothing that comes through Ray, from ``ray.init`` to the end of the session.

    ``actor_class`` stands for whatever class an actor of another run has. Raises ClusterUnavailableError where this
    release of Ray has other internals.
    """
    worker: Any = ray._private.worker.global_worker
    context = worker.get_serialization_context()
    manager = worker.function_actor_manager
    needed = (
        (context, "_deserialize_object"),
        (context, "_deserialize_pickle5_data"),
        (manager, "_load_actor_class_from_gcs"),
        (RayError, "from_ray_exception"),
    )
    missing = [name for owner, name in needed if not callable(getattr(owner, name, None))]
    if missing:
        raise ClusterUnavailableError(
            f"Ray {ray.__version__} does not have {', '.join(missing)}, by which raybench keeps it from unpickling "
            f"what nodes send; pip install ray=={RAY_TESTED}"
        )
    context._deserialize_object = functools.partial(_read, context._deserialize_object)
    context._deserialize_pickle5_data = _refuse
    manager._load_actor_class_from_gcs = lambda *_: actor_class
    RayError.from_ray_exception = staticmethod(_as_text)  # type: ignore[method-assign]  # which is the point


def _read(original: Callable[..., Any], data: Any, metadata: Any, *rest: Any) -> Any:
    """Raw bytes, plain values and Ray's own errors as Ray reads them; of anything else, that it was refused."""
    kind = bytes(metadata or b"").split(b",")[0]
    allowed = kind.isdigit() or kind in (b"RAW", b"XLANG", b"")
    return original(data, metadata, *rest) if allowed else NodeError(_REFUSED)


def _refuse(*_: Any, **__: Any) -> Any:
    raise NodeError(_REFUSED)


def _as_text(exception: Any) -> NodeError:
    """What was raised on a node, from the text beside the pickled exception."""
    lines = [line for line in str(exception.formatted_exception_string).splitlines() if line.strip()]
    return NodeError(lines[-1].strip() if lines else "an error without text")
