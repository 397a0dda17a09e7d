"""The node's configuration: a TOML file, environment variables and command-line options; the later of these win.

Keys of the file, variables `HEADGATE_<KEY>` and options `--key` have the same names. A table of the file belongs to the
part that has its name (`[store]`, `[mqtt]`, …), and is read as the class that the part declares.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from msgspec import Meta

from domain.errors import ConfigError
from domain.topic.topic import Durability
from gateway.node.roles.role_names import ALL, STORE, roles_of
from gateway.node.settings_tables import HIDDEN, SECRET, convert, declared, from_text, nearest, read, secret

PREFIX: Final = "HEADGATE_"
ENVIRONMENT: Final = "environment"
"""First word of the source of a value from an environment variable. Such a value is text and is converted."""
Number = Annotated[int, Meta(ge=0, le=10_000_000)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
C = TypeVar("C")
ADMIN_PORT: Final = 8088
CLUSTER_OPTIONS: Final = frozenset(
    {"store.kind", "store.nameservers", "store.access_key_file", "store.ca", "store.state.address"}
)
"""Settings of the table `[store]` that `--store rocketmq://HOST:PORT` and the options beside it give."""
INNER: Final = {"store": "state"}
"""Table -> the table inside it, whose settings variables and options give too: `HEADGATE_STORE_STATE_ADDRESS`."""
UNREAD: Final = frozenset({"HEADGATE_CONFIG", "HEADGATE_PURE", "HEADGATE_REQUIRE_COMPILED"})
"""Variables with the prefix that are not settings: they are read before the configuration."""


@dataclass(frozen=True, slots=True)
class Known:
    """Ports and tables that the configuration of a node may contain.

    ports    listener -> default port, in the order of the table at the start
    beside   listener -> (another one, distance of its port from that one's)
    """

    ports: Mapping[str, int]
    tables: Mapping[str, type]
    beside: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def secrets(self) -> set[str]:
        """The settings whose values are never printed, as `name` or `table.name`."""
        parts = {"": Config, **self.tables}
        hints = ((f"{table}.{name}", hint) for table, kind in parts.items() for name, hint in declared(kind).items())
        return {name.lstrip(".") for name, hint in hints if secret(hint)}


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration in force.

    roles             what this process does, with commas between: gateway serves clients, store keeps everything, nameserver
                      answers routes; `headgate up` does all of it, `headgate run` any part, and a controller
    data              folder of all stored data; of a node without the role store, of its certificates
    host              address that all listeners bind
    admin_host        address that the admin port binds, whatever `host` is
    advertise         host name or address that routes and offset ids carry; "": `host`, or an address of this machine when
                      `host` is a wildcard
    ports             listener -> port, before `port_offset` is added; 0: any free port
    port_offset       number added to every port except 0
    cluster           name of the cluster that routes and policies carry
    broker            name of this broker in routes and receipts
    durability        durability of new topics: when a send is acknowledged
    insecure          true: a host other than loopback is accepted without access control
    admin             `NAME:PASSWORD` of a Super user; when set, access is controlled
    admin_file        file whose first line is `NAME:PASSWORD`, as for `admin`
    tls_only          true: every stream port but `admin` takes TLS only, and of datagram ports only those of DTLS are opened
    client_ca         PEM file of the authorities that sign client certificates; "": no client certificate is requested
    connections_max   connections open at once, over all stream ports; fewer when the limit of open files leaves room for fewer,
                      which the start says
    certificate       PEM file of the certificate for TLS; "": a self-signed one is made and kept in the data folder
    key               PEM file of the certificate's key
    log_level         lowest level of the lines that the process logs
    log_format        text: a line for people; json: an object a line
    tables            table of the configuration -> its values as given
    sources           setting -> source of its value; settings with their default are absent
    file              the configuration file that was read; "": none
    secrets           settings whose values are not printed
    """

    roles: str = ",".join(ALL)
    data: str = "./headgate-data"
    host: str = "127.0.0.1"
    admin_host: str = "127.0.0.1"
    advertise: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    port_offset: Number = 0
    cluster: str = "DefaultCluster"
    broker: str = "broker-a"
    durability: Durability = Durability.FLUSHED
    insecure: bool = False
    admin: Annotated[str, SECRET] = ""
    admin_file: str = ""
    tls_only: bool = False
    client_ca: str = ""
    connections_max: Number = 100_000
    certificate: str = ""
    key: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    secrets: frozenset[str] = frozenset()

    def port(self, name: str) -> int:
        """The port that listener `name` binds, with the offset; 0: any free port."""
        port = self.ports[name]
        return port + self.port_offset if port else 0

    def table(self, name: str) -> Mapping[str, object]:
        """The values of one table as given; empty when the table is absent."""
        return self.tables.get(name, {})

    def part(self, kind: type[C], name: str) -> C:
        """The table `name` as an instance of its settings class. Raises ConfigError for a key or value that is not valid."""
        return read(kind, name, self.table(name), self.sources)

    @property
    def role_set(self) -> frozenset[str]:
        """The roles of this process."""
        return roles_of(self.roles)

    @property
    def controlled(self) -> bool:
        """Whether access is controlled: `access.enabled`; else whether there is an admin, or a cluster has the users."""
        table = self.table("access")
        enabled = table.get("enabled")
        return bool(self.admin) or table.get("users") == "cluster" if enabled is None else enabled is True

    def rows(self) -> list[tuple[str, str, str]]:
        """(setting, value, source of the value) of every setting in force. Secret values are hidden."""
        found: dict[str, object] = {}
        for setting in SETTINGS:
            value = getattr(self, setting)
            found[setting] = value.value if isinstance(value, Durability) else value
        found.update({f"ports.{name}": port for name, port in self.ports.items()})
        found.update({f"{name}.{key}": value for name, table in self.tables.items() for key, value in table.items()})
        found.update({name: HIDDEN for name in self.secrets if found.get(name)})
        return [(name, _text(value), self.sources.get(name, "default")) for name, value in found.items()]


APART: Final = frozenset(("ports", "tables", "sources", "file", "secrets"))
SETTINGS: Final = tuple(field.name for field in fields(Config) if field.name not in APART)
"""The node's own settings."""


def load(
    options: Mapping[str, object],
    environment: Mapping[str, str],
    parts: Known,
    file: str | None = None,
) -> Config:
    """Read the configuration file, the environment and the options.

    options       setting (`ports.mqtt` and `gateway.store` too) -> value; None: the option was not given
    parts         ports and tables that the configuration may contain
    file          path of the TOML file; None: no file

    Raises ConfigError for an unreadable file, an unknown setting, and a value that is not valid.
    """
    known = {*SETTINGS, *(f"ports.{name}" for name in parts.ports)}
    tabled = CLUSTER_OPTIONS | {f"{table}.{name}" for table, kind in parts.tables.items() for name in declared(kind)}
    values: dict[str, object] = {}
    sources: dict[str, str] = {}

    def take(found: Mapping[str, object], origin: str) -> None:
        for name, value in found.items():
            values[name] = value
            sources[name] = origin

    if file is not None:
        take(_from_file(file, known, parts.tables), f"file {file}")
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in UNREAD:
            take({_variable(variable, known, parts.tables): value}, f"{ENVIRONMENT} {variable}")
    for name, given in options.items():
        if given is not None:
            take({_known(name, known | tabled, f"option --{_option(name)}"): given}, f"option --{_option(name)}")
    return _build(parts, values, sources, file or "")


def admin_address(options: Mapping[str, object], environment: Mapping[str, str], file: str | None) -> tuple[str, int] | None:
    """(host, port) of the admin port, as `load` will find them; None when they cannot be read.

    All settings are known only when all protocols are imported. The admin port answers before.
    """
    try:
        document = tomllib.loads(Path(file).read_text("utf-8")) if file is not None else {}

        def found(table: Mapping[str, Any], key: str, name: str, default: object) -> str:
            given = options.get(name), environment.get(PREFIX + name.replace(".", "_").upper()), table.get(key), default
            return str(next(value for value in given if value is not None))

        port = int(found(document.get("ports", {}), "admin", "ports.admin", ADMIN_PORT))
        offset = int(found(document, "port_offset", "port_offset", 0))
        return found(document, "admin_host", "admin_host", "127.0.0.1"), port + offset if port else 0
    except (OSError, ValueError, AttributeError):
        return None


def _from_file(file: str, known: set[str], parts: Iterable[str]) -> dict[str, object]:
    try:
        document = tomllib.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration file {file} cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration file {file} is not TOML: {error}") from error
    found: dict[str, object] = {}
    for name, value in document.items():
        if isinstance(value, dict) and name in (*parts, "ports"):
            for key, inner in value.items():
                dotted = f"{name}.{key}"
                found[_known(dotted, known, f"file {file}") if name == "ports" else dotted] = inner
        else:
            found[_known(name, known | {"ports"} | set(parts), f"file {file}")] = value
    return found


def _variable(variable: str, known: set[str], parts: Iterable[str]) -> str:
    """`HEADGATE_PORT_OFFSET` -> port_offset, `HEADGATE_PORTS_MQTT` -> ports.mqtt, `HEADGATE_STORE_X` -> store.x."""
    name = variable.removeprefix(PREFIX).lower()
    if name in known:
        return name
    table, _, key = name.partition("_")
    inner = INNER.get(table, "")
    if inner and key.startswith(f"{inner}_"):
        return f"{table}.{inner}.{key.removeprefix(f'{inner}_')}"
    if table in parts and key:
        return f"{table}.{key}"
    dotted = f"{table}.{key}"
    if dotted in known:
        return dotted
    spelled = {PREFIX + setting.replace(".", "_").upper() for setting in known}
    raise ConfigError(f"environment {variable} is unknown{nearest(variable, spelled)}")


def _known(name: str, known: set[str], where: str) -> str:
    if name not in known:
        raise ConfigError(f"{where}: {name} is unknown{nearest(name, known)}")
    return name


def _option(name: str) -> str:
    short = name.replace("ports.", "port ").replace("store.state.address", "state")
    return short.removeprefix("gateway.").replace("_", "-")


def _build(parts: Known, values: Mapping[str, object], sources: Mapping[str, str], file: str) -> Config:
    ports = dict(parts.ports)
    tables: dict[str, dict[str, object]] = {}
    simple: dict[str, Any] = {}
    hints = declared(Config)
    for name, value in values.items():
        table, dot, key = name.partition(".")
        if table == "ports" and dot:
            ports[key] = convert(Port, from_text(Port, value), name, sources[name])
        elif "." in key:
            inner, _, last = key.partition(".")
            given = tables.setdefault(table, {}).get(inner, {})
            tables[table][inner] = {**(given if isinstance(given, dict) else {}), last: value}
        elif dot:
            hint = declared(parts.tables[table]).get(key, object)
            tables.setdefault(table, {})[key] = from_text(hint, value) if sources[name].startswith(ENVIRONMENT) else value
        else:
            simple[name] = convert(hints[name], from_text(hints[name], value), name, sources[name])
    for name, (other, distance) in parts.beside.items():
        if f"ports.{name}" not in values:
            ports[name] = max(ports[other] + distance, 0) if ports[other] else 0
    if simple.get("admin_file") and not simple.get("admin"):
        simple["admin"] = _line(simple["admin_file"])
    if tables.get("replication", {}).get("controllers") and "durability" not in simple:
        simple["durability"] = Durability.REPLICATED_FLUSHED
    config = Config(**simple, ports=ports, tables=tables, sources=dict(sources), file=file, secrets=frozenset(parts.secrets()))
    _check(config)
    return config


def _line(file: str) -> str:
    """The first line of a file."""
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"admin_file {file} cannot be read ({error})") from error
    return lines[0].strip() if lines else ""


def _check(config: Config) -> None:
    for name in config.ports:
        if config.port(name) > 65_535:
            raise ConfigError(f"port {name} is {config.port(name)} with the offset {config.port_offset}: at most 65535")
    if STORE in config.role_set and not config.controlled:
        refuse_exposed(config)
    if (config.certificate == "") != (config.key == ""):
        raise ConfigError("certificate and key belong together: give both, or neither")
    if config.durability.waits_for_replicas and not config.table("replication").get("controllers"):
        raise ConfigError(f"durability is {config.durability.value}: this node has no replicas; use flushed or page")


def refuse_exposed(config: Config) -> None:
    """Access is not controlled. Raises ConfigError when others reach this node, and that is not accepted."""
    exposed = next((host for host in (config.host, config.admin_host) if not is_loopback(host)), "")
    if exposed and not config.insecure:
        raise ConfigError(
            f"host {exposed} can be reached by others and there is no access control: "
            "control it with --admin NAME:PASSWORD, use a loopback address, or accept that with --insecure"
        )


def is_loopback(host: str) -> bool:
    """True when only this machine reaches `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
