"""Options of the commands that start a node or read its configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Final, final

import typer

from domain.errors import ConfigError

if TYPE_CHECKING:
    from gateway.node.settings import Config

OPTIONS: Final[Mapping[str, object]] = {
    "roles": Annotated[
        str | None, typer.Option(metavar="A,B", help="gateway, store, nameserver (default: these three), controller.")
    ],
    "store": Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Remoting port of a gateway's store (of its replicas: A,B), or rocketmq://HOST:PORT of a name server.",
        ),
    ],
    "state": Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Before an Apache cluster: remoting port of the node that keeps the state."),
    ],
    "access_key_file": Annotated[
        str | None, typer.Option(help="File whose first line is NAME:PASSWORD of a Super user at that store.")
    ],
    "store_ca": Annotated[str | None, typer.Option(help="PEM file: the connection to that store uses TLS.")],
    "data": Annotated[str | None, typer.Option(help="Folder of everything that is kept (default ./headgate-data).")],
    "host": Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")],
    "admin_host": Annotated[str | None, typer.Option(help="Address of the admin port (default 127.0.0.1).")],
    "advertise": Annotated[str | None, typer.Option(help="Address that routes carry, when clients see another one.")],
    "port_offset": Annotated[int | None, typer.Option(help="Shift every port by this much, those of --port too.")],
    "port": Annotated[list[str] | None, typer.Option(metavar="NAME=N", help="One port, as in mqtt=1884. Can be repeated.")],
    "durability": Annotated[
        str | None, typer.Option(help="Durability of new topics: page, flushed, replicated, replicated+flushed.")
    ],
    "insecure": Annotated[bool | None, typer.Option("--insecure", help="Accept a host that others can reach.")],
    "certificate": Annotated[str | None, typer.Option(help="PEM file for TLS (default: self-signed).")],
    "key": Annotated[str | None, typer.Option(help="PEM file with the certificate's key.")],
    "admin": Annotated[str | None, typer.Option(metavar="NAME:PASSWORD", help="Control access; this is a first Super user.")],
    "admin_file": Annotated[str | None, typer.Option(help="File whose first line is NAME:PASSWORD, as for --admin.")],
    "tls_only": Annotated[
        bool | None, typer.Option("--tls-only", help="Take no connection without TLS, and no datagrams without DTLS.")
    ],
    "client_ca": Annotated[str | None, typer.Option(help="PEM file of the authorities of client certificates.")],
    "config": Annotated[str | None, typer.Option("--config", help="TOML file (default $HEADGATE_CONFIG).")],
}
"""The options of `up`, `run` and `config show`. The value None means that the option was not given."""

REPLICAS: Final = Annotated[
    int | None, typer.Option(metavar="N", help="A replicated group on this machine, for a first try: 3 or 5 stores, a gateway.")
]
"""The option of `up` alone."""
OF_GROUP: Final = frozenset(("data", "port_offset", "config", "replicas"))
"""Options that go with `--replicas`."""
OF_GATEWAY: Final[Mapping[str, str]] = {name: f"gateway.{name}" for name in ("store", "access_key_file", "store_ca")}
OF_TABLES: Final[Mapping[str, str]] = {**OF_GATEWAY, "state": "store.state.address"}
"""Options that are settings of a table."""
CLUSTER: Final = "rocketmq://"
"""Begins the address of a name server of an Apache RocketMQ cluster in `--store`."""


@final
class GivenOptions:
    """The options that a command was given; called, it reads the configuration."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def __call__(self) -> Config:
        """Read the configuration. Raises ConfigError."""
        from gateway.node.composition import known
        from gateway.node.settings import load

        return load(_settings(self._given), os.environ, known(), self._file)

    @property
    def _file(self) -> str | None:
        return self._given["config"] or os.environ.get("HEADGATE_CONFIG")

    @property
    def replicas(self) -> int:
        """`--replicas`; 0: not given. Raises ConfigError when another option does not go with it."""
        others = [name for name, value in self._given.items() if value not in (None, []) and name not in OF_GROUP]
        if self._given.get("replicas") is not None and others:
            option = others[0].replace("_", "-")
            raise ConfigError(
                f"--{option} does not go with --replicas, which is for a first try on this machine: leave it out, or see "
                "docs/cluster.md for a group on three machines"
            )
        return self._given.get("replicas") or 0

    def admin_address(self) -> tuple[str, int] | None:
        """(host, port) of the admin port; None when they cannot be read, which reading the configuration reports."""
        from gateway.node.settings import admin_address

        try:
            return admin_address(_settings(self._given), os.environ, self._file)
        except ConfigError:
            return None


def taking_options(command: Callable[[GivenOptions], None], more: Mapping[str, object] | None = None) -> Callable[..., None]:
    """Add the `OPTIONS`, and `more`, to a command. The command is called with a function that reads the configuration."""
    options = {**OPTIONS, **(more or {})}

    @wraps(command)
    def run(**given: Any) -> None:
        command(GivenOptions(given))

    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint) for name, hint in options.items()]
    vars(run)["__signature__"] = Signature(parameters)
    run.__annotations__ = dict(options)
    del vars(run)["__wrapped__"]
    return run


def _settings(given: Mapping[str, Any]) -> dict[str, object]:
    """Setting -> its value as an option, None for an option that was not given. Raises ConfigError."""
    options: dict[str, object] = {
        OF_TABLES.get(name, name): value for name, value in given.items() if name not in ("port", "config", "replicas")
    }
    if str(given["store"] or "").startswith(CLUSTER):
        options |= _of_cluster(given)
    for assignment in given["port"] or ():
        name, equals, number = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--port {assignment}: NAME=N is wanted, as in --port mqtt=1884")
        options[f"ports.{name}"] = number
    return options


def _of_cluster(given: Mapping[str, Any]) -> dict[str, object]:
    """`--store rocketmq://HOST:PORT` and what goes with it, as settings of the table `[store]`.

    More name servers follow after commas, or after semicolons, as Apache writes them.
    """
    nameservers = given["store"].removeprefix(CLUSTER).rstrip("/").replace(";", ",")
    return {
        **dict.fromkeys(OF_GATEWAY.values()),
        "store.kind": "rocketmq",
        "store.nameservers": [each for each in nameservers.split(",") if each],
        "store.access_key_file": given["access_key_file"],
        "store.ca": given["store_ca"],
    }
