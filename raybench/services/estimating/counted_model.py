"""A model named by its import path: counted in a process of its own, since the user's code runs there."""

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.performance_model.models.counted_model import CountedModel

LIMIT_SECONDS = 120.0
_PATH = re.compile(r"[A-Za-z_][\w.]{0,200}:[A-Za-z_][\w.]{0,200}")
_MOST_SHOWN = 300  # characters of what went wrong
_TORCH_TYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "bfloat16"}


def is_import_path(name: str) -> bool:
    """Whether a model's name is ``package.module:factory``."""
    return _PATH.fullmatch(name) is not None


def counted_model(
    path: str, *, sequence_length: int, dtype: str, limit_seconds: float = LIMIT_SECONDS
) -> "CountedModel":
    """The module that ``path`` names, or that what it names gives when called, on the meta device.

    It may give ``(module, inputs)``, inputs of one sample; else it is fed with ``sequence_length`` tokens. Raises
    UsageError where it cannot be imported, built or run, or takes longer than ``limit_seconds``.
    """
    words = [sys.executable, "-P", "-m", "raybench.benchmarks.training.models.counted"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:  # no pipes: what it starts may hold those
        code = _end_of([*words, path, str(sequence_length), _TORCH_TYPES[dtype]], limit_seconds, out, errors)
        printed, said = _lines(out), _lines(errors)
    if code is None:
        raise UsageError(
            f"--model {path} was not counted within {limit_seconds:g} s; give a factory that only builds the module"
        )
    if code:
        reason = said[-1] if said else f"it ended without a word, {_end(code)}"
        raise UsageError(
            f"--model {path} cannot be counted on the meta device: {reason[:_MOST_SHOWN]}; give package.module:factory "
            "of a torch.nn.Module that takes tokens, or of (module, inputs)"
        )
    if not printed:
        raise UsageError(f"--model {path} ended its process before it was counted; let it give the module back")
    try:
        return model_of(path, json.loads(printed[-1]), sequence_length)
    except UsageError as error:
        raise UsageError(f"--model {path} was counted, and is of no size that can be estimated: {error}") from error
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        raise UsageError(f"--model {path}: the count was not printed last; let its module print nothing") from None


def _end_of(words: list[str], limit_seconds: float, out: IO[bytes], errors: IO[bytes]) -> int | None:
    """The program's exit code, None where it took too long. What it has started ends with it."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    child = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment, start_new_session=True
    )
    try:
        return child.wait(limit_seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _end(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def _lines(file: IO[bytes]) -> list[str]:
    file.seek(0)
    return file.read().decode(errors="replace").strip().splitlines()


def model_of(path: str, found: dict[str, Any], length: int) -> "CountedModel":
    """The model of what was counted with samples of so many tokens."""
    from raybench.performance_model.models.counted_model import CountedModel
    from raybench.performance_model.models.transformer import MOST_HIDDEN

    block, outer = (tuple(tuple(shape) for shape in found[name]) for name in ("block_shapes", "outer_shapes"))
    if not found["blocks"]:  # nothing is repeated: it is one block
        block, outer = outer, ()
    kept = found["block_kept_bytes"] if found["blocks"] else found["outer_kept_bytes"]
    return CountedModel(
        name=path,
        layers=max(1, found["blocks"]),
        hidden=min(max(1, int(found["width"])), MOST_HIDDEN),  # no layer is more efficient for being wider
        heads=1,
        head_width=1,
        feedforward=1,
        vocabulary=max(1, math.ceil(found["output_elements"] / length)),
        context=length,
        shapes_of_block=block,
        shapes_outside=outer,
        operations=float(found["operations"]),
        sample_length=length,
        block_kept_bytes=float(kept),
        outer_kept_bytes=float(found["outer_kept_bytes"]) if found["blocks"] else 0.0,
        buffer_bytes=int(found["buffer_bytes"]),
        frozen_parameters=int(found["frozen"]),
        passing_bytes=float(found["passing_bytes"]),
    )
