"""The node's storage engine: chosen by `[store] engine` among the installed ones (entry points of `gateway.stores`)."""

from __future__ import annotations

import dataclasses
from importlib.metadata import entry_points
from typing import Any, Final

from domain.errors import ConfigError
from domain.storage_engine import StorageEngine

STORES: Final = "gateway.stores"
ENGINE: Final = "engine"
DEFAULT_ENGINE: Final = "log"


def engine_named(name: object) -> StorageEngine:
    """The installed engine of that name. Raises ConfigError for one that is not installed or cannot be imported."""
    points = {point.name: point for point in entry_points(group=STORES)}
    point = points.get(name) if isinstance(name, str) else None
    if point is None:
        installed = ", ".join(sorted(points)) or "none"
        raise ConfigError(f"store.engine is {name!r}: no such storage engine is installed; installed: {installed}")
    try:
        engine = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"store.engine is {name!r}: the storage engine cannot be loaded: {error}") from error
    if not isinstance(engine, StorageEngine):
        raise ConfigError(f"store.engine is {name!r}: {point.value} is no StorageEngine")
    return engine


def settings_of(engine: StorageEngine, table: dict[str, Any], given: dict[str, Any], hot_bytes: int) -> Any:
    """The engine's settings: those of the table `[store]`, and the fields that the node gives."""
    known = {field.name for field in dataclasses.fields(engine.settings)}
    defaults = {"hot_bytes": hot_bytes} if "hot_bytes" in known else {}
    return engine.settings(**{**defaults, **table, **given})
