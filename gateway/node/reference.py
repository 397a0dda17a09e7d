"""All settings of a node: their defaults, and a Markdown page made from the settings classes.

The description of a setting is in the docstring of its class: a line `name   description`, and indented continuation lines.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from domain.store.storage_engine import GIVEN_FIELDS
from gateway.apache.relay.settings import RelaySettings
from gateway.apache.settings import RocketmqSettings
from gateway.guard.proxies import Proxies
from gateway.guard.settings import ProxySettings
from gateway.node.client_side import access_of
from gateway.node.roles.store_address import StateAddress
from gateway.node.settings import SETTINGS, Config, Known, Port
from gateway.node.settings_tables import declared, rows_of, wanted
from gateway.node.storage import (
    ADDRESS,
    DEFAULT_ENGINE,
    ENGINE,
    HOT_BYTES,
    KIND,
    LOCAL,
    ROCKETMQ,
    STATE,
    is_rocketmq,
    settings_of,
)

BY_MEMORY: Final = "by memory"
EMPTY: Final = '""'
ABOUT_ENGINE: Final = "entry point of `gateway.stores`; the other settings here are those of the engine, as shown for `log`"
_FIELD: Final = re.compile(r"^    (\w+) {2,}(\S.*)$")
_MORE: Final = re.compile(r"^     +(\S.*)$")

TABLE_HEAD: Final = "| Setting | Default | Wanted | What it does |\n|---|---|---|---|"
HEAD: Final = """# Settings

Printed by `headgate config reference`; edit the classes that declare the settings, not this page. A setting is given in a TOML
file (`--config FILE` or `HEADGATE_CONFIG`), by an environment variable (`HEADGATE_MQTT_QOS_MAX` for `qos_max` of `[mqtt]`,
`HEADGATE_PORTS_MQTT` for a port), or, where it is the node's own, by an option of `headgate up` (`--port-offset`); the later of
these wins. `headgate config show` prints what is in force and where each value is from. Names end in their unit: `_s` seconds,
`_ms` milliseconds, `_bytes`, `_per_s` a second, `_max` at most.
"""


def defaults(config: Config, parts: Known, hot_bytes: int) -> list[tuple[str, str, str]]:
    """(setting, value, "default") of the settings of tables that were not given. Raises ConfigError."""
    store = settings_of(config, hot_bytes)
    rows = [] if ENGINE in config.table("store") else [(f"store.{ENGINE}", DEFAULT_ENGINE, "default")]
    beside = is_rocketmq(config)
    for table, kind in parts.tables.items():
        if table == "store" and beside:
            continue
        given: object = store if table == "store" else config.part(kind, table)
        for name in declared(type(given), GIVEN_FIELDS if table == "store" else ()):
            if name not in config.table(table):
                rows.append((f"{table}.{name}", text(getattr(given, name)), "default"))
    Proxies(config.part(ProxySettings, "proxy"))
    access_of(config)
    return rows


def page(parts: Known) -> str:
    """The page of all settings, in Markdown."""
    tables = {"": Config, **parts.tables}
    lines = [HEAD]
    for table, kind in tables.items():
        lines += _section(table, kind, parts.ports)
        if table == "store":
            lines += _cluster_section()
    return "\n".join(lines)


def _cluster_section() -> Iterator[str]:
    """What `[store]` takes in a gateway before an Apache RocketMQ cluster."""
    yield f'## `[store]` with `{KIND} = "{ROCKETMQ}"`\n'
    yield f"A gateway or a state node before an Apache RocketMQ cluster; `[store.{STATE}]` has the settings above then.\n"
    yield TABLE_HEAD
    yield f"| `{KIND}` | `{LOCAL}` | one of {LOCAL}, {ROCKETMQ} | where messages are: in the data directory, or in a cluster |"
    for kind in (RocketmqSettings, RelaySettings):
        yield from _rows(kind, declared(kind))
    yield f"\n## `[store.{STATE}]` with `{ADDRESS}`\n"
    yield "A gateway before a cluster, whose state is at a [state node](rocketmq-cluster.md#several-gateways).\n"
    yield TABLE_HEAD
    yield from _rows(StateAddress, declared(StateAddress))
    yield ""


def _rows(kind: type, hints: Mapping[str, Any]) -> Iterator[str]:
    """A row for each setting of `kind` in `hints`."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    words = explained(kind)
    for name, hint in hints.items():
        shown = "" if defaults[name] is dataclasses.MISSING else text(defaults[name])
        value = BY_MEMORY if name == HOT_BYTES else f"`{shown or EMPTY}`"
        about = words[name].replace("|", "\\|")
        yield f"| `{name}` | {value} | {wanted(hint)} | {about} |"


def explained(kind: type) -> dict[str, str]:
    """Field -> its description in the docstring of `kind`."""
    found: dict[str, str] = {}
    name = ""
    for line in (kind.__doc__ or "").splitlines():
        begins, more = _FIELD.match(line), _MORE.match(line)
        if begins:
            name = begins.group(1)
            found[name] = begins.group(2)
        elif more and name:
            found[name] += " " + more.group(1)
        else:
            name = ""
    return found


def text(value: object) -> str:
    """A value as it is printed: booleans and lists in TOML's notation, None as "unset"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "unset"
    if isinstance(value, enum.Enum):
        return str(value.value)
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _section(table: str, kind: type, ports: Mapping[str, int], rows: bool = False) -> Iterator[str]:
    heading = f"[[{table}]]" if rows else f"[{table}]"
    hints = declared(kind, GIVEN_FIELDS if table == "store" else ())
    if kind is Config:
        hints = {name: hints[name] for name in SETTINGS}
    yield f"## `{heading}`\n" if table else "## The node\n"
    if not hints:
        yield "No settings.\n"
        return
    yield TABLE_HEAD
    if table == "store":
        yield f"| `{ENGINE}` | `{DEFAULT_ENGINE}` | text | {ABOUT_ENGINE} |"
    yield from _rows(kind, hints)
    yield ""
    for name, hint in hints.items():
        inner = rows_of(hint)
        if inner is not None:
            yield from _section(f"{table}.{name}", inner, ports, rows=True)
    if kind is Config:
        yield "## `[ports]`\n"
        yield "| Setting | Default | Wanted |\n|---|---|---|"
        yield from (f"| `{name}` | `{port}` | {wanted(Port)}; 0: any free one |" for name, port in ports.items())
        yield ""
