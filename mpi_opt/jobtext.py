"""Text to typed tables and back: TOML, overrides, keys checked by name, and a small TOML writer.

Nothing here knows which keys a job has: that is read off the ``msgspec.Struct`` types of ``job.py``. Every error names
the key by its full path, the value, and what is allowed.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from mpi_opt.errors import JobError
from mpi_opt.words import nearest

Plain = dict[str, Any]
"""What TOML text parses to: nested dicts, lists and scalars."""

T = TypeVar("T", bound=msgspec.Struct)

_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")
_BARE_KEY = re.compile(r"^[A-Za-z0-9_-]+\Z")


def parse(text: str, place: str) -> Plain:
    """Return the tables of TOML ``text``; ``place`` names it in errors.

    Raises
    ------
    JobError
        The text is not TOML; the message holds line and column.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(f"{place}: not valid TOML: {error}") from None


def override(raw: Plain, setting: str) -> None:
    """Apply one ``a.b=value`` to ``raw`` in place, making the tables in between.

    The value is read as TOML; what is no TOML value is taken as a string, so that words and paths need no quotes. An
    empty value takes the key away.

    Raises
    ------
    JobError
        There is no ``=``, a key is not a bare TOML key, a broken table, list or quoted string, or a table in between
        is not a table.
    """
    path, separator, text = setting.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(_BARE_KEY.match(key) for key in keys):
        raise JobError(f"--set {setting!r}: expected key=value or table.key=value")
    table = raw
    for depth, key in enumerate(keys[:-1], start=1):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise JobError(f"--set {setting!r}: {'.'.join(keys[:depth])} is {show(table)}, not a table")
    if text.strip():
        table[keys[-1]] = _value(text.strip(), setting)
    else:
        table.pop(keys[-1], None)


def _value(text: str, setting: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[0] in "{[\"'":
            raise JobError(f"--set {setting!r}: not a TOML value: {error}") from None
        return text
    return parsed["value"] if len(parsed) == 1 else text


def convert(raw: Plain, kind: type[T]) -> T:
    """Return ``raw`` as the struct ``kind``, every key and value checked.

    Raises
    ------
    JobError
        An unknown or missing key, a value of another type or out of range, or what ``__post_init__`` of a struct
        refuses.
    """
    described: dict[str, str] = {}
    _check(raw, inspect.type_info(kind), "", described)
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, ValueError):
            raise JobError(str(error.__cause__)) from None
        match = _PLACE.match(str(error))
        assert match is not None
        path = match["path"] or ""
        key = re.sub(r"\[.*$", "", path)
        allowed = described.get(key, "")
        allowed = f"allowed: {allowed}" if allowed else match["what"]
        raise JobError(f"{path} = {show(_at(raw, path))}: {allowed}") from None


def _check(value: Any, kind: inspect.Type, path: str, described: dict[str, str]) -> None:
    """Walk ``value`` beside its type: keys known, none missing, no NaN or infinity; note what each path allows."""
    described[path] = _words(kind)
    if isinstance(value, float) and not math.isfinite(value):
        raise JobError(f"{path} = {show(value)}: a number must be finite{_allowed(described[path])}")
    if isinstance(value, list):
        for number, item in enumerate(value):
            _check(item, inspect.AnyType(), f"{path}[{number}]", described)
    if not isinstance(value, dict):
        return
    struct = _struct(value, kind, path)
    if struct is None:
        for key, item in value.items():
            _check(item, inspect.AnyType(), f"{path}.{key}", described)
        return
    fields = {field.encode_name: field for field in struct.fields}
    tag = struct.tag_field
    for key, item in value.items():
        inner = f"{path}.{key}" if path else key
        if key in fields:
            _check(item, fields[key].type, inner, described)
        elif key != tag:
            known = [tag, *fields] if tag else list(fields)
            raise JobError(f"{inner}: unknown key{choice(key, known)}")
    for name, field in fields.items():
        if field.required and name not in value:
            raise JobError(f"{path}.{name}".lstrip(".") + f": missing{_allowed(_words(field.type))}")


def _words(kind: inspect.Type) -> str:
    """Return what the annotation says is allowed; of ``X | None`` what X says."""
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", ""))
    if isinstance(kind, inspect.UnionType):
        return next((words for words in map(_words, kind.types) if words), "")
    return "a table" if isinstance(kind, inspect.StructType) and kind.tag is None else ""


def _struct(value: Plain, kind: inspect.Type, path: str) -> inspect.StructType | None:
    """Return the struct that ``value`` is to become; of several, the one its tag names."""
    structs = [k for k in _members(kind) if isinstance(k, inspect.StructType)]
    if not structs or (len(structs) == 1 and structs[0].tag is None):
        return structs[0] if structs else None
    field = structs[0].tag_field
    assert field is not None
    tags = {str(s.tag): s for s in structs}
    tag = value.get(field)
    if tag is None:
        raise JobError(f"{path}.{field}: missing; allowed: {', '.join(tags)}")
    if not isinstance(tag, str) or tag not in tags:
        raise JobError(f"{path}.{field} = {show(tag)}: unknown{choice(tag, tags)}")
    return tags[tag]


def _members(kind: inspect.Type) -> list[inspect.Type]:
    """Return the types of a union, of unions within it too, without their annotations; of any other type itself."""
    if isinstance(kind, inspect.Metadata):
        return _members(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [member for inner in kind.types for member in _members(inner)]
    return [kind]


def choice(word: object, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'? Allowed: x, y`` (or only the latter where nothing is near)."""
    names = list(known)
    return f"{nearest(word, names) or ';'} Allowed: {', '.join(names)}"


def _allowed(note: str) -> str:
    return f"; allowed: {note}" if note else ""


def _at(raw: Any, path: str) -> Any:
    for number, key in _STEP.findall(path):
        raw = raw[int(number)] if number else raw[key]
    return raw


def show(value: Any) -> str:
    """Return ``value`` as TOML would write it, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + re.sub(r'["\\\x00-\x1f\x7f]', _escape, value) + '"'
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {show(v)}" for k, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(show, value))}]"
    return str(value)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return "\\" + character if character in '"\\' else f"\\u{ord(character):04x}"


def _key(key: str) -> str:
    return key if _BARE_KEY.match(key) else show(key)


def write(tables: Plain) -> str:
    """Return TOML text that parses to ``tables``: top-level values, then one ``[table]`` each, the rest inline.

    ``None`` values are left out: TOML has no word for them.
    """
    lines = [
        f"{_key(k)} = {show(without_none(v))}" for k, v in tables.items() if not isinstance(v, dict) and v is not None
    ]
    for name, table in tables.items():
        if isinstance(table, dict):
            entries = [f"{_key(k)} = {show(v)}" for k, v in without_none(table).items()]
            lines += ["", f"[{_key(name)}]", *entries]
    return "\n".join(lines).lstrip("\n") + "\n"


def without_none(value: Any) -> Any:
    """Return nested tables without their ``None`` values."""
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    return value
