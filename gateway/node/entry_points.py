"""Objects that installed packages name by entry points: roles, storage engines, strategies of gateways."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from domain.errors import ConfigError


def load_named(group: str, name: str, absent: Callable[[list[str]], str], broken: str) -> tuple[Any, str]:
    """The object of the entry point `name` of `group`, and its place, `module:object`. Imports the module.

    Raises ConfigError: with `absent(names that are installed)`, or with `broken` and the reason when the import fails.
    """
    points = _points(group)
    if name not in points:
        raise ConfigError(absent(list(points)))
    return _loaded(points[name], broken), points[name].value


def load_all(group: str, broken: Callable[[str], str]) -> dict[str, Any]:
    """Name -> object of all entry points of `group`, by name. Raises ConfigError with `broken(name)` and the reason."""
    return {name: _loaded(point, broken(name)) for name, point in _points(group).items()}


def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def _loaded(point: EntryPoint, broken: str) -> Any:
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{broken}: {error}") from error
