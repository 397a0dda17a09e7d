"""One reader for all settings: a table of text and numbers into the frozen class that declares what it may say.

A class declares a setting as an annotated field with a default: its type, and bounds by `msgspec.Meta(ge=…, le=…,
min_length=…, max_length=…)`; a few values by `Literal`; a table within by another such class. Whatever is wrong is said in
one form: where it is from, the setting, its value, and what is wanted. `SECRET` keeps a value out of that text.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import tomllib
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from domain.errors import ConfigError

HIDDEN: Final = "(hidden)"
LONGEST: Final = 80
"""Characters of a wrong value that are shown."""

FLAGS: Final = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
"""What variables may say for true and false."""

C = TypeVar("C")


def read(
    kind: type[C],
    table: str,
    given: Mapping[str, object],
    sources: Mapping[str, str],
    apart: tuple[str, ...] = (),
    **fixed: Any,
) -> C:
    """The table called `table` as a `kind`.

    `sources`: `table.key` -> where the value is from. `apart`: fields that are no settings; `fixed`: their
    values. Raises ConfigError for
    an unknown key, a wrong type, a value out of its bounds, and for what `kind` itself refuses with a ValueError.
    """
    hints = declared(kind, apart)
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = f"{table}.{key}"
        if key not in hints:
            known = "".join(f"; known are {', '.join(hints)}" for _ in range(bool(hints))) or f": {table} has no settings"
            raise ConfigError(f"{_from(sources, name)}{name} is unknown{nearest(key, hints) or known}")
        values[key] = convert(hints[key], value, name, sources.get(name, ""))
    try:
        return kind(**fixed, **values)
    except ValueError as error:
        place = next((sources[name] for name in sources if name.startswith(f"{table}.")), "")
        raise ConfigError(f"{place + ': ' if place else ''}{table}: {error}") from error


def convert(hint: Any, value: object, name: str, source: str) -> Any:
    """One value as its setting wants it. Raises ConfigError."""
    inner = rows_of(hint)
    if inner is not None and isinstance(value, list) and all(isinstance(row, dict) for row in value):
        rows = ((f"{name}[{at}]", row) for at, row in enumerate(value))
        return tuple(read(inner, place, row, {f"{place}.{key}": source for key in row}) for place, row in rows)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError:
        shown = HIDDEN if secret(hint) else repr(value)
        shown = shown if len(shown) <= LONGEST else shown[:LONGEST] + "…"
        raise ConfigError(f"{source + ': ' if source else ''}{name} is {shown}: {wanted(hint)} is wanted") from None


def from_text(hint: Any, value: object) -> object:
    """Text of an option or a variable as TOML would read it, where the setting is no text; anything else as it stands."""
    kind = _taken_apart(hint)[0]
    if not isinstance(value, str) or kind is str:
        return value
    if kind is bool and value.lower() in FLAGS:
        return FLAGS[value.lower()]
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no known name is near."""
    close = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def declared(kind: Any, apart: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings that a class declares, in their order, with their types and bounds; `apart` are fields that are none."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.name not in apart}


def wanted(hint: Any) -> str:
    """What a setting may be, in words."""
    kind, metas = _taken_apart(hint)
    least, most, longest = (_bound(metas, name) for name in ("ge", "le", "max_length"))
    if get_origin(kind) is Literal:
        return f"one of {', '.join(repr(choice) if choice == '' else str(choice) for choice in get_args(kind))}"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {', '.join(str(choice.value) for choice in kind)}"
    if kind is bool:
        return "true or false"
    if kind in (int, float):
        noun = "a whole number" if kind is int else "a number"
        if most is not None:
            return f"{noun} from {least or 0} to {most}"
        return noun if least is None else f"{noun} of at least {least}"
    if kind is str:
        return "text" if longest is None else f"text of at most {longest} characters"
    if rows_of(hint) is not None:
        return "a list of tables"
    [inner, *_] = get_args(kind)
    return f"a list of {', '.join(get_args(inner))}" if get_origin(inner) is Literal else "a list of text"


def _bound(metas: list[msgspec.Meta], name: str) -> object:
    return next((value for value in (getattr(meta, name) for meta in metas) if value is not None), None)


def secret(hint: Any) -> bool:
    """True for a setting whose value is never shown."""
    return any((meta.extra or {}).get("secret") for meta in _taken_apart(hint)[1])


SECRET: Final = msgspec.Meta(extra={"secret": True})
"""Marks a setting whose value is never shown."""


def _taken_apart(hint: Any) -> tuple[Any, list[msgspec.Meta]]:
    if get_origin(hint) is Annotated:
        kind, *rest = get_args(hint)
        return kind, [meta for meta in rest if isinstance(meta, msgspec.Meta)]
    if isinstance(hint, types.UnionType):
        return _taken_apart(next(each for each in get_args(hint) if each is not types.NoneType))
    return hint, []


def rows_of(hint: Any) -> type | None:
    """The class of the tables in a list of tables, None for any other setting."""
    kind = _taken_apart(hint)[0]
    inner = get_args(kind)[0] if get_origin(kind) is tuple else None
    return inner if isinstance(inner, type) and dataclasses.is_dataclass(inner) else None


def _from(sources: Mapping[str, str], name: str) -> str:
    source = sources.get(name, "")
    return f"{source}: " if source else ""
