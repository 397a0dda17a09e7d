"""Reads tables of the configuration as instances of their settings classes.

A settings class is a frozen dataclass. It declares a setting as an annotated field with a default: the type; bounds by
`msgspec.Meta(ge=…, le=…, min_length=…, max_length=…)`; a choice of values by `Literal`; an inner table by another settings
class. Every error text has the same form: source of the value, setting, value, accepted values. The value of a field marked
with `SECRET` is not in the text.
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
"""Characters of a wrong value that an error text contains at most."""

FLAGS: Final = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
"""Texts that mean true and false in environment variables."""

C = TypeVar("C")


def read(
    kind: type[C],
    table: str,
    given: Mapping[str, object],
    sources: Mapping[str, str],
    apart: tuple[str, ...] = (),
    **fixed: Any,
) -> C:
    """Make a `kind` from the values of a table.

    given     setting -> value as given
    sources   `table.key` -> source of the value
    apart     fields of `kind` that are not settings
    fixed     values of those fields

    Raises ConfigError for an unknown key, a wrong type, a value out of its bounds, and a ValueError raised by `kind`.
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
    """Convert one value to the type of its setting. Raises ConfigError when it does not fit."""
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
    """Parse the text of an option or variable as a TOML value. Text for a text setting, and other types, stay unchanged."""
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
    """`; did you mean 'x'?` with the most similar known name, or "" when no known name is similar."""
    close = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def declared(kind: Any, apart: tuple[str, ...] = ()) -> dict[str, Any]:
    """Setting -> its type and bounds, in the order of declaration. `apart`: fields that are not settings."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.name not in apart}


def wanted(hint: Any) -> str:
    """The accepted values of a setting, in words."""
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
    """True for a setting whose value is never printed."""
    return any((meta.extra or {}).get("secret") for meta in _taken_apart(hint)[1])


SECRET: Final = msgspec.Meta(extra={"secret": True})
"""Marks a setting whose value is never printed."""


def _taken_apart(hint: Any) -> tuple[Any, list[msgspec.Meta]]:
    if get_origin(hint) is Annotated:
        kind, *rest = get_args(hint)
        return kind, [meta for meta in rest if isinstance(meta, msgspec.Meta)]
    if isinstance(hint, types.UnionType):
        return _taken_apart(next(each for each in get_args(hint) if each is not types.NoneType))
    return hint, []


def rows_of(hint: Any) -> type | None:
    """The settings class of the rows when the setting is a list of tables, else None."""
    kind = _taken_apart(hint)[0]
    inner = get_args(kind)[0] if get_origin(kind) is tuple else None
    return inner if isinstance(inner, type) and dataclasses.is_dataclass(inner) else None


def _from(sources: Mapping[str, str], name: str) -> str:
    source = sources.get(name, "")
    return f"{source}: " if source else ""
