"""Every warning that NCCL's sources can print, with made-up values in the place of what its format strings fill in."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SUFFIXES = {".cc", ".h", ".cpp", ".cu", ".cuh", ".c"}
_WARN = re.compile(r"\bWARN\s*\(")
_TOKEN = re.compile(r'"((?:[^"\\\n]|\\.)*)"|/\*.*?\*/|//[^\n]*', re.DOTALL)  # a text, or a comment
_PRINTED_SIZE = re.compile(r"\bPRI([diuxX])(?:8|16|32|64|PTR)\b")
_NAME = re.compile(r"#?\bname\b")  # of the function that a macro wraps
_FIELD = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t)?([diouxXpsfgeEcm%])")
_VALUES = {"x": "7f", "X": "7F", "p": "0x7f3c", "f": "1.5", "g": "1.5", "e": "1.5", "c": "x", "%": "%"}
_ERROR = "Cannot allocate memory"  # of a system call; what else is text is a NIC's name
_ESCAPES = {"\\n": " ", "\\t": " ", '\\"': '"', "\\'": "'"}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SourceWarning:
    """A warning as it is printed, and the file that does it, as NCCL names it."""

    file: str
    text: str


def warnings_of(source: Path) -> Iterator[SourceWarning]:
    """The warnings of an unpacked release, in the order of its files; a text of several lines comes each time."""
    for path in sorted(path for path in source.rglob("*") if path.suffix in _SUFFIXES and "windows" not in path.name):
        code = path.read_text(encoding="utf-8", errors="replace").replace("\\\n", "")
        for call in _WARN.finditer(code):
            before = code[code.rfind("\n", 0, call.start()) + 1 : call.start()]
            if "#define" in before or "//" in before:
                continue
            if text := _printed(_first_argument(code, call.end())):
                yield SourceWarning(file=str(path.relative_to(source)).removeprefix("src/"), text=text)


def _first_argument(code: str, start: int) -> str:
    depth, place = 0, start
    while place < len(code) and not (depth == 0 and code[place] in ",)"):
        if token := _TOKEN.match(code, place):
            place = token.end()
            continue
        depth += {"(": 1, ")": -1}.get(code[place], 0)
        place += 1
    return code[start:place]


def _printed(argument: str) -> str:
    """What a format string prints; empty for one that is no literal."""
    parts = re.split(r'("(?:[^"\\\n]|\\.)*")', argument)  # each second one is a text
    parts[::2] = [_NAME.sub('"ibv_create_qp"', _PRINTED_SIZE.sub(r'"\1"', code)) for code in parts[::2]]
    text = "".join(token[1] for token in _TOKEN.finditer("".join(parts)) if token[1])
    for escape, meant in _ESCAPES.items():
        text = text.replace(escape, meant)
    return " ".join(_FIELD.sub(lambda field: _value(text, field), text).split())


def _value(text: str, field: re.Match[str]) -> str:
    if field[1] in "sm":
        return _ERROR if re.search(r"(?i)fail|error", text[: field.start()]) else "mlx5_0"
    return _VALUES.get(field[1], "7")
