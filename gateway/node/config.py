"""The node's configuration: one TOML file, the environment, and the command line, in rising order of rank; read once.

Keys of the file, variables `HEADGATE_<KEY>` and options `--key` have the same names. A table of the file belongs to the
part that has its name (`[store]`, `[mqtt]`, …), which checks its own keys.
"""

from __future__ import annotations

import difflib
import ipaddress
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from domain.errors import ConfigError
from domain.topic import Durability

PORTS: Final[Mapping[str, int]] = {
    "nameserver": 9876,
    "remoting": 10911,
    "grpc": 8081,
    "http": 8080,
    "mqtt": 1883,
    "mqtts": 8883,
    "websocket": 8083,
    "websockets": 8084,
    "coap": 5683,
    "admin": 8088,
}
"""Listeners and their default ports. `http` recognises every stream protocol; `coap` is a datagram port."""

PREFIX: Final = "HEADGATE_"
APART: Final = frozenset({"HEADGATE_CONFIG", "HEADGATE_PURE", "HEADGATE_REQUIRE_COMPILED"})
"""Variables that are not settings: they are read before there are any."""


SECRETS: Final = ("admin", "access.jwt_secret")
HIDDEN: Final = "(hidden)"


@dataclass(frozen=True, slots=True)
class Config:
    """What is in force.

    data              folder of everything that is kept
    host              address that all listeners bind
    advertise         what routes and offset ids carry; "": the host when it is concrete
    ports             listener -> port, before `port_offset` is added
    durability        level of new topics
    insecure          a host other than loopback without access control is accepted
    admin             `NAME:PASSWORD` of a Super user; access is controlled where there is one. admin_file: a file that says it
    client_ca         PEM file of the authorities whose client certificates are taken; "": none is asked for
    connections_max   connections open at once, over all stream ports
    certificate, key  PEM files for TLS; "": self-signed, kept in the data folder
    tables            the tables of the configuration file that belong to parts
    sources           setting -> where its value is from; defaults are absent
    file              the file that was read, "": none
    """

    data: str = "./headgate-data"
    host: str = "127.0.0.1"
    advertise: str = ""
    ports: Mapping[str, int] = field(default_factory=lambda: dict(PORTS))
    port_offset: int = 0
    cluster: str = "DefaultCluster"
    broker: str = "broker-a"
    durability: Durability = Durability.FLUSHED
    insecure: bool = False
    admin: str = ""
    admin_file: str = ""
    client_ca: str = ""
    connections_max: int = 100_000
    certificate: str = ""
    key: str = ""
    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    file: str = ""

    def port(self, name: str) -> int:
        """The port that listener `name` is to bind; 0 stays 0, any free one."""
        port = self.ports[name]
        return port + self.port_offset if port else 0

    def table(self, name: str) -> Mapping[str, object]:
        """One part's table, empty when there is none."""
        return self.tables.get(name, {})

    @property
    def controlled(self) -> bool:
        """Access is controlled: `access.enabled` says so, or says nothing and there is an admin."""
        enabled = self.table("access").get("enabled")
        return bool(self.admin) if enabled is None else enabled is True

    def rows(self) -> list[tuple[str, str, str]]:
        """(setting, value, where it is from) for all that is in force."""
        found: dict[str, object] = {}
        for setting in _SIMPLE:
            value = getattr(self, setting)
            found[setting] = value.value if isinstance(value, Durability) else value
        found.update({f"ports.{name}": port for name, port in self.ports.items()})
        found.update({f"{name}.{key}": value for name, table in self.tables.items() for key, value in table.items()})
        found.update({name: HIDDEN for name in SECRETS if found.get(name)})
        return [(name, _text(value), self.sources.get(name, "default")) for name, value in found.items()]


_SIMPLE: Final = tuple(field.name for field in fields(Config) if field.name not in ("ports", "tables", "sources", "file"))


def load(
    options: Mapping[str, object],
    environment: Mapping[str, str],
    tables: Iterable[str],
    file: str | None = None,
) -> Config:
    """Read everything once. `options` has the names of settings (`ports.mqtt` too); None there means not given.

    `tables` are the names that parts have. Raises ConfigError for whatever a person has to change.
    """
    known = {*_SIMPLE, *(f"ports.{name}" for name in PORTS)}
    parts = sorted(tables)
    values: dict[str, object] = {}
    sources: dict[str, str] = {}

    def take(found: Mapping[str, object], origin: str) -> None:
        for name, value in found.items():
            values[name] = value
            sources[name] = origin

    if file is not None:
        take(_from_file(file, known, parts), f"file {file}")
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in APART:
            take({_variable(variable, known, parts): value}, f"environment {variable}")
    for name, given in options.items():
        if given is not None:
            take({_known(name, known, "option"): given}, f"option --{_option(name)}")
    return _build(values, sources, file or "")


def _from_file(file: str, known: set[str], parts: list[str]) -> dict[str, object]:
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
                found[_known(dotted, known, f"{file}:") if name == "ports" else dotted] = inner
        else:
            found[_known(name, known | {"ports"} | set(parts), f"{file}:")] = value
    return found


def _variable(variable: str, known: set[str], parts: list[str]) -> str:
    """`HEADGATE_PORT_OFFSET` -> port_offset, `HEADGATE_PORTS_MQTT` -> ports.mqtt, `HEADGATE_STORE_X` -> store.x."""
    name = variable.removeprefix(PREFIX).lower()
    if name in known:
        return name
    table, _, key = name.partition("_")
    if table in parts and key:
        return f"{table}.{key}"
    dotted = f"{table}.{key}"
    if dotted in known:
        return dotted
    spelled = {PREFIX + setting.replace(".", "_").upper() for setting in known}
    raise ConfigError(f"environment variable {variable} is unknown{nearest(variable, spelled)}")


def _known(name: str, known: set[str], where: str) -> str:
    if name not in known:
        raise ConfigError(f"{where} unknown setting {name!r}{nearest(name, known)}")
    return name


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no known name is near."""
    close = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _option(name: str) -> str:
    return name.replace("ports.", "port ").replace("_", "-")


def _build(values: Mapping[str, object], sources: Mapping[str, str], file: str) -> Config:
    ports = dict(PORTS)
    tables: dict[str, dict[str, object]] = {}
    simple: dict[str, Any] = {}
    defaults = Config()
    for name, value in values.items():
        table, dot, key = name.partition(".")
        where = f"{sources[name]}: {name}"
        if table == "ports" and dot:
            ports[key] = _integer(value, where, 0, 65_535)
        elif dot:
            tables.setdefault(table, {})[key] = _plain(value)
        elif name == "durability":
            simple[name] = _durability(value, where)
        elif isinstance(getattr(defaults, name), bool):
            simple[name] = _boolean(value, where)
        elif isinstance(getattr(defaults, name), int):
            simple[name] = _integer(value, where, 0, 10_000_000)
        elif isinstance(value, str):
            simple[name] = value
        else:
            raise ConfigError(f"{where} must be text, not {value!r}")
    if simple.get("admin_file") and not simple.get("admin"):
        simple["admin"] = _line(simple["admin_file"])
    config = Config(**simple, ports=ports, tables=tables, sources=dict(sources), file=file)
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
    if not is_loopback(config.host) and not config.insecure and not config.controlled:
        raise ConfigError(
            f"host {config.host} can be reached by others and there is no access control: "
            "control it with --admin NAME:PASSWORD, use a loopback address, or accept that with --insecure"
        )
    if (config.certificate == "") != (config.key == ""):
        raise ConfigError("certificate and key belong together: give both, or neither")


def is_loopback(host: str) -> bool:
    """True when only this machine reaches `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _durability(value: object, where: str) -> Durability:
    for level in Durability:
        if value in (level, level.value):
            return level
    raise ConfigError(f"{where} is {value!r}: one of {', '.join(level.value for level in Durability)}")


def _boolean(value: object, where: str) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("1", "true", "yes", "on", "0", "false", "no", "off"):
        return text in ("1", "true", "yes", "on")
    raise ConfigError(f"{where} is {value!r}: true or false")


def _integer(value: object, where: str, least: int, most: int) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise ConfigError(f"{where} is {value!r}: a whole number") from None
    if isinstance(value, bool) or not least <= number <= most:
        raise ConfigError(f"{where} is {value!r}: from {least} to {most}")
    return number


def _plain(value: object) -> object:
    """A variable's text as TOML would read it, else as it stands."""
    if not isinstance(value, str):
        return value
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
