"""The storage engine of a node: `[store] engine` names one of the installed ones (entry points of `gateway.stores`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from domain.errors import ConfigError
from domain.store.storage_engine import GIVEN_FIELDS, StorageEngine
from gateway.apache.relay.settings import RelaySettings
from gateway.apache.settings import RocketmqSettings
from gateway.cluster.replica.settings import ReplicationSettings
from gateway.node.entry_points import load_named
from gateway.node.roles.store_address import StateAddress
from gateway.node.settings import Config
from gateway.node.settings_tables import declared, read

C = TypeVar("C")
STORES: Final = "gateway.stores"
ENGINE: Final = "engine"
DEFAULT_ENGINE: Final = "log"
KIND: Final = "kind"
LOCAL: Final = "local"
ROCKETMQ: Final = "rocketmq"
STATE: Final = "state"
"""Table in the table `[store]`: settings of the engine beside a cluster, or where that is."""
ADDRESS: Final = "address"
"""The setting of that table which says that the state is at another node."""
HOT_BYTES: Final = "hot_bytes"
"""The setting of an engine whose default is a share of the machine's memory."""


def engine_named(name: object) -> StorageEngine:
    """The installed engine called `name`. Raises ConfigError when it is not installed or cannot be imported."""
    what = f"store.engine is {name!r}"
    engine, place = load_named(
        STORES, name if isinstance(name, str) else "",
        lambda names: f"{what}: no such storage engine is installed; installed: {', '.join(names) or 'none'}",
        f"{what}: the storage engine cannot be loaded",
    )  # fmt: skip
    if not isinstance(engine, StorageEngine):
        raise ConfigError(f"{what}: {place} is no StorageEngine")
    return engine


def engine_of(config: Config) -> StorageEngine:
    """The engine that the table `[store]` names. Raises ConfigError."""
    return engine_named(config.table("store").get(ENGINE, DEFAULT_ENGINE))


def is_rocketmq(config: Config) -> bool:
    """Whether messages are in an Apache RocketMQ cluster. Raises ConfigError for a kind that there is not."""
    kind = config.table("store").get(KIND, LOCAL)
    if kind not in (LOCAL, ROCKETMQ):
        raise ConfigError(f"store.kind is {kind!r}: {LOCAL} or {ROCKETMQ} is wanted")
    return kind == ROCKETMQ


def is_replicated(config: Config) -> bool:
    """True when the store of this node is a replica. Raises ConfigError."""
    return bool(config.part(ReplicationSettings, "replication").controllers)


def of_cluster(config: Config, kind: type[C]) -> C:
    """The settings in `[store]` that `kind` declares, with `kind = "rocketmq"`. Raises ConfigError, also for unknown ones."""
    table = {name: value for name, value in config.table("store").items() if name not in (ENGINE, KIND, STATE)}
    hints = {**declared(RocketmqSettings), **declared(RelaySettings)}
    mine = declared(kind)
    given = {name: value for name, value in table.items() if name in mine or name not in hints}
    servers = given.get("nameservers")
    if isinstance(servers, str):
        given["nameservers"] = [each.strip() for each in servers.replace(";", ",").split(",") if each.strip()]
    return read(kind, "store", given, config.sources)


def state_address(config: Config) -> StateAddress | None:
    """The node at which the state beside a cluster is; None: it is in the data directory. Raises ConfigError."""
    beside = _beside(config) if is_rocketmq(config) else {}
    return read(StateAddress, f"store.{STATE}", beside, config.sources) if ADDRESS in beside else None


def _beside(config: Config) -> Mapping[str, object]:
    beside = config.table("store").get(STATE, {})
    if not isinstance(beside, dict):
        raise ConfigError("store.state is a table: where the state node is, or settings of the engine beside the cluster")
    return beside


def settings_of(config: Config, hot_bytes: int, given: Mapping[str, Any] = {}) -> Any:
    """The table `[store]` as the engine's settings; `given` are the fields that the node sets. Raises ConfigError."""
    kind = engine_of(config).settings
    table = dict(config.table("store"))
    if is_rocketmq(config):
        beside = _beside(config)
        table = {} if ADDRESS in beside else dict(beside)
    table = {name: value for name, value in table.items() if name not in (ENGINE, KIND)}
    if HOT_BYTES in declared(kind):
        table.setdefault(HOT_BYTES, hot_bytes)
    known = {name: value for name, value in given.items() if name in {field.name for field in fields(kind)}}
    return read(kind, "store", table, config.sources, GIVEN_FIELDS, **known)
