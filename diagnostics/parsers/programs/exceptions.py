"""Exceptions that are raised without a word, such as ``AssertionError``, and those whose names tell of no error."""

from diagnostics.parsers.base import Pattern
from diagnostics.parsers.pytorch import BEFORE_EXCEPTION

_WITHOUT_A_WORD = (
    ("rror", r"_?[A-Z]\w*Error", "AssertionError"),
    ("xception", r"(?:[A-Z]\w*)?Exception", "Exception"),
)
_NAMED = (  # what the scan looks for, the name behind its modules, a name
    ("StopIteration", "StopIteration", "StopIteration"),
    ("StopAsyncIteration", "StopAsyncIteration", "StopAsyncIteration"),
    ("ExceptionGroup", "(?:Base)?ExceptionGroup", "ExceptionGroup"),
    ("OutOfResources", "OutOfResources", "triton.runtime.errors.OutOfResources"),
    ("TimeoutExpired", "TimeoutExpired", "subprocess.TimeoutExpired"),
    ("queue.Empty", "_?queue\\.Empty", "queue.Empty"),
    ("queue.Full", "queue\\.Full", "queue.Full"),
    ("BrokenProcessPool", "BrokenProcessPool", "concurrent.futures.process.BrokenProcessPool"),
    ("_dynamo.exc.", "_dynamo\\.exc\\.\\w+", "torch._dynamo.exc.Unsupported"),
    ("_inductor.exc.", "_inductor\\.exc\\.\\w+", "torch._inductor.exc.InductorError"),
    ("ReadTimeout", "ReadTimeout", "requests.exceptions.ReadTimeout"),
    ("ConnectTimeout", "ConnectTimeout", "httpx.ConnectTimeout"),
    ("exceptions.", "exceptions?\\.[A-Z]\\w+", "google.api_core.exceptions.Forbidden"),
    ("errors.", "errors?\\.[A-Z]\\w+", "wandb.sdk.errors.CommFault"),
    (".exc.", "\\w+\\.exc\\.[A-Z]\\w+", "sqlalchemy.exc.NoSuchTable"),
    ("socket.timeout", "socket\\.timeout", "socket.timeout"),
    ("EnforceNotMet", "EnforceNotMet", "paddle.base.libpaddle.EnforceNotMet"),
    ("ArrowInvalid", "ArrowInvalid", "pyarrow.lib.ArrowInvalid"),
    ("filelock", "filelock\\.(?:_error\\.)?Timeout", "filelock._error.Timeout"),
)
_EXITS = r"(?P<name>SystemExit): (?P<reason>(?!0\s*$|None\s*$).+)"  # without a number the program is done


def _pattern(literal: str, name: str, end: str, sample: str) -> Pattern:
    expression = rf"{BEFORE_EXCEPTION}(?P<name>(?:\w+\.)*{name}){end}"
    return Pattern(kind="python-error", literal=literal, expression=expression, samples=(sample, f"[rank0]: {sample}"))


PATTERNS = (
    *(_pattern(literal, name, r"(?P<reason>):?\s*$", sample) for literal, name, sample in _WITHOUT_A_WORD),
    *(_pattern(literal, name, r"(?::\s|:?\s*$)(?P<reason>.*)", sample) for literal, name, sample in _NAMED),
    Pattern(  # as hooks for exceptions print what they are given: type, value and traceback
        kind="python-error",
        literal="<class '",
        expression=(
            r"(?i:(?:uncaught|unhandled) exception)\b.{0,40}?<class '(?P<name>(?:\w+\.)*\w+)'>"
            r"\W{0,4}(?P<reason>(?:[^;<]*[^;<\s,])?)"
        ),
        samples=(
            "Uncaught exception | <class 'ValueError'>; no implementation; <traceback object at 0x7f5beafb7900>;",
            "Unhandled exception: (<class 'torch.OutOfMemoryError'>, OutOfMemoryError('CUDA out of memory'), None)",
        ),
    ),
    Pattern(
        kind="python-error",
        literal="SystemExit: ",
        expression=BEFORE_EXCEPTION + _EXITS,
        samples=("[rank0]: SystemExit: 1",),
    ),
)
