"""Text as tokens of a ``tokenizer.json``, as a Hugging Face folder has it, by the library ``tokenizers``.

The file is data: nothing of it is executed, and nothing is fetched.
"""

import platform
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raybench.errors import UsageError

FILE = "tokenizer.json"
_PIECE = 2**16  # bytes that are encoded at a time; cut at a line's end, where tokens begin anew


def check_tokenizer(name: str, text: bytes, vocabulary: int) -> None:
    """Raises UsageError as ``tokens_of``, which later reads all of the text, does of its begin."""
    tokens_of(text[:_PIECE], name, vocabulary)


def tokens_of(text: bytes, name: str, vocabulary: int) -> "array[int]":
    """The tokens of a text, 32 bits each.

    Raises UsageError where the file is not there or cannot be used, the library is missing, or the model lacks a token.
    """
    tokenizer, found = _tokenizer(name), array("i")
    for encoded in tokenizer.encode_batch([*_pieces(text)], add_special_tokens=False):
        found.extend(encoded.ids)
    if found and max(found) >= vocabulary:
        raise UsageError(
            f"--tokenizer {name} gives the token {max(found)}, and the model has {vocabulary}; take the tokenizer of "
            f"the model, or --vocabulary {tokenizer.get_vocab_size()}"
        )
    return found


def _pieces(text: bytes) -> Iterator[str]:
    begin = 0
    while begin < len(text):
        end = text.rfind(b"\n", begin, begin + _PIECE) + 1 or begin + _PIECE
        yield text[begin:end].decode("utf-8", "replace")
        begin = end


def _tokenizer(name: str) -> Any:
    path = Path(name) / FILE if Path(name).is_dir() else Path(name)
    here = platform.node()
    try:
        import tokenizers  # an optional library
    except ImportError as error:
        raise UsageError(
            f"--tokenizer {name} needs the library tokenizers, which is not installed on {here}: pip install "
            "tokenizers; or leave the option out: text is then read byte by byte"
        ) from error
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--tokenizer {path} cannot be read on {here} ({reason}); every node needs it") from error
    try:
        return tokenizers.Tokenizer.from_buffer(content)
    except ValueError as error:
        raise UsageError(f"--tokenizer {path} is not a tokenizer.json: {error}") from error
