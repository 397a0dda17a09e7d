"""The storage engine of a node: `[store] engine` names one of the installed ones (entry points of `gateway.stores`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any, Final

from domain.errors import ConfigError
from domain.storage_engine import GIVEN_FIELDS, StorageEngine
from gateway.node.config import Config
from gateway.node.settings import declared, read

STORES: Final = "gateway.stores"
ENGINE: Final = "engine"
DEFAULT_ENGINE: Final = "log"
HOT_BYTES: Final = "hot_bytes"
"""The setting of an engine whose default is a share of the machine's memory."""


def engine_named(name: object) -> StorageEngine:
    """The installed engine called `name`. Raises ConfigError when it is not installed or cannot be imported."""
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


def engine_of(config: Config) -> StorageEngine:
    """The engine that the table `[store]` names. Raises ConfigError."""
    return engine_named(config.table("store").get(ENGINE, DEFAULT_ENGINE))


def settings_of(config: Config, hot_bytes: int, given: Mapping[str, Any] = {}) -> Any:
    """The table `[store]` as the engine's settings; `given` are the fields that the node sets. Raises ConfigError."""
    kind = engine_of(config).settings
    table = {name: value for name, value in config.table("store").items() if name != ENGINE}
    if HOT_BYTES in declared(kind):
        table.setdefault(HOT_BYTES, hot_bytes)
    known = {name: value for name, value in given.items() if name in {field.name for field in fields(kind)}}
    return read(kind, "store", table, config.sources, GIVEN_FIELDS, **known)
