"""Parts that are structures of msgspec, and how parts of either kind are read; keys that they do not know are kept.

A class has a field for each key that is stored. What follows from stored figures is written beside them for readers
of the JSON, and is derived again when the document is read.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from raybench.documents.plain import AnyDocument, AnyPart, Json, PlainPart, ReportedDocument, json_of
from raybench.documents.reading import DocumentError, check_schema, read_document, taking_apart

PartType = TypeVar("PartType", bound=AnyPart)
DocumentType = TypeVar("DocumentType", bound=AnyDocument)


class DamageError(ValueError):
    """A value of a document is not what it can be. ``place`` is where, below the part that was looked into."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{why} - at `${place}`")
        self.place, self.why = place, why

    def below(self, place: str) -> "DamageError":
        """The same with the place of the part in front."""
        return DamageError(place + self.place, self.why)


class Part(AnyPart, msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A part of a document that only raybench itself writes: its keys may have other names than its fields."""

    unknown_keys: Mapping[str, Any] | None = msgspec.field(default=None, name="+unknown_keys")


class FieldwisePart(Part, frozen=True, kw_only=True):
    """A part that is written as its fields, all of them, in their order."""

    def to_json(self) -> Json:
        """The part as in its document."""
        fields = [one for one in msgspec.structs.fields(self) if not one.encode_name.startswith("+")]
        return self.with_unknown({one.encode_name: json_of(getattr(self, one.name)) for one in fields})


def take(content: Json, *keys: str, of: Any) -> Any:
    """The value below nested keys as a type, or None where there is none. Raises DamageError with its place."""
    value: Any = content
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        return None
    try:
        return msgspec.convert(value, of)
    except msgspec.ValidationError as error:
        raise placed(error, "".join(f".{key}" for key in keys)) from error


def placed(error: msgspec.ValidationError, place: str) -> DamageError:
    """The error of a conversion as damage; ``place`` is that of what was converted."""
    why, _, where = str(error).partition(" - at `$")
    return DamageError(place + where.removesuffix("`"), why)


class Document(ReportedDocument, Part, frozen=True, kw_only=True):
    """A whole document of such parts."""

    @classmethod
    def read(cls, path: Path, what: str) -> Self:
        """The document in a file; ``what`` names it in errors (``the baseline``). Raises DocumentError."""
        return read_as(cls, path, what)

    @classmethod
    def of_json(cls, content: object, where: str) -> Self:
        """The document from its JSON; ``where`` begins each error. Raises DocumentError."""
        return document_as(cls, content, where)


def read_as(kind: type[DocumentType], path: Path, what: str) -> DocumentType:
    """The document in a file; ``what`` names it in errors (``the baseline``). Raises DocumentError."""
    return part_of(kind, read_document(path, kind.SCHEMA, what), f"{what} {path}")


def document_as(kind: type[DocumentType], content: object, where: str) -> DocumentType:
    """A document from its JSON; ``where`` begins each error. Raises DocumentError."""
    check_schema(content, kind.SCHEMA, where)
    return part_of(kind, content, where)


class FieldwiseDocument(FieldwisePart, Document, frozen=True, kw_only=True):
    """A document that is written as its schema, then its fields, all of them, in their order."""

    def to_json(self) -> Json:
        """The whole document."""
        return {"schema": self.SCHEMA} | super().to_json()


def part_of(kind: type[PartType], content: object, where: str) -> PartType:
    """A whole document from its JSON. Raises DocumentError, which names the place of what is damaged."""
    with taking_apart(where):
        try:
            part: PartType = msgspec.convert(_prepared(kind, content, ""), kind)
        except DamageError as error:
            raise DocumentError(f"{where} is damaged: {error}") from error
        except msgspec.ValidationError as error:
            said = _in_words(error)
            state = "not whole" if said.startswith("Object missing") else "damaged"
            raise DocumentError(f"{where} is {state}: {said}") from error
        for place, reason in _contradictions(part, "$"):
            raise DocumentError(f"{where} is damaged: {reason} - at `{place}`")
    return part


def _in_words(error: msgspec.ValidationError) -> str:
    """With the keys of the JSON where a field of it stands for another."""
    return str(error).splitlines()[0].replace(".+", ".").replace("`+", "`")


def _prepared(kind: Any, content: object, place: str) -> object:
    """The JSON of a part as its fields, with unknown keys put aside, and so with all parts below it."""
    if not isinstance(content, dict):
        return content  # the conversion says what it should be
    known, below = _keys(kind)
    unknown = {key: value for key, value in content.items() if key not in known}
    try:
        fields = kind.stored({key: value for key, value in content.items() if key in known} if unknown else content)
    except DamageError as error:
        raise error.below(place) from error
    parts = {
        key: prepare(fields[key], f"{place}.{key.removeprefix('+')}")
        for key, prepare in below.items()
        if fields.get(key) is not None
    }
    return {**fields, **parts, _UNKNOWN[issubclass(kind, Part)]: unknown or None}


_Prepare = Callable[[Any, str], object]
_UNKNOWN = ("unknown_keys", "+unknown_keys")  # as a dataclass and as a structure of msgspec is converted from


@cache
def _keys(kind: Any) -> tuple[frozenset[str], Mapping[str, _Prepare]]:
    """The keys that a part has in a document, and how those below which there are parts are prepared."""
    hints = typing.get_type_hints(kind)
    fields = _fields(kind)
    known = {key for _, key in fields if not key.startswith("+")} | kind.DERIVED
    below = {key: found for name, key in fields if (found := _preparing(hints[name])) is not None}
    return frozenset(known), below


def fields_of(kind: type[AnyPart]) -> tuple[str, ...]:
    """The attributes of a part, in their order."""
    return tuple(name for name, _ in _fields(kind) if name != "unknown_keys")


def _fields(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """The attributes of a part with the keys that they are converted from."""
    if issubclass(kind, PlainPart):
        return tuple((one.name, one.name) for one in dataclasses.fields(kind) if one.name != "unknown_keys")
    return tuple((one.name, one.encode_name) for one in msgspec.structs.fields(kind))


def _preparing(hint: Any) -> _Prepare | None:
    if isinstance(hint, type) and issubclass(hint, AnyPart):
        return lambda content, place: _prepared(hint, content, place)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and arguments[1:] == (...,):
        one = _preparing(arguments[0])
        return None if one is None else _each(one)
    if typing.get_origin(hint) is Mapping:
        one = _preparing(arguments[1])
        return None if one is None else _each_value(one)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        parts = [one for one in arguments if isinstance(one, type) and issubclass(one, AnyPart)]
        return _tagged(parts) if len(parts) > 1 else _preparing(parts[0]) if parts else None
    return None


def _each(prepare: _Prepare) -> _Prepare:
    def prepared(content: Any, place: str) -> object:
        if not isinstance(content, list):
            return content
        return [prepare(one, f"{place}[{index}]") for index, one in enumerate(content)]

    return prepared


def _each_value(prepare: _Prepare) -> _Prepare:
    def prepared(content: Any, place: str) -> object:
        if not isinstance(content, dict):
            return content
        return {key: prepare(one, f"{place}.{key}") for key, one in content.items()}

    return prepared


def _tagged(kinds: list[type[Any]]) -> _Prepare:
    """Of several kinds of part, each marked with its own tag by whoever holds them."""
    by_tag = {kind.__struct_config__.tag: kind for kind in kinds}

    def prepared(content: Any, place: str) -> object:
        if not isinstance(content, dict):
            return content
        tag = content.pop("+kind")
        found = _prepared(by_tag[tag], content, place)
        return found | {"+kind": tag} if isinstance(found, dict) else found

    return prepared


def _contradictions(part: AnyPart, place: str) -> Iterator[tuple[str, str]]:
    reason = part.contradiction()
    if reason is not None:
        yield place, reason
    kind: Any = type(part)
    for name, key in _below(kind):
        value = getattr(part, name)
        if isinstance(value, AnyPart):
            yield from _contradictions(value, f"{place}.{key}")
        elif isinstance(value, tuple):
            for index, one in enumerate(value):
                yield from _contradictions(one, f"{place}.{key}[{index}]")
        elif isinstance(value, Mapping):
            for entry, one in value.items():
                yield from _contradictions(one, f"{place}.{key}.{entry}")


@cache
def _below(kind: Any) -> tuple[tuple[str, str], ...]:
    """The attributes of a part that hold parts, with their keys."""
    _, below = _keys(kind)
    return tuple((name, key.removeprefix("+")) for name, key in _fields(kind) if key in below)
