"""The command `headgate`. What a person got wrong is said in one line on stderr, with exit code 2 and no traceback."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from domain.errors import ConfigError, GatewayError

if TYPE_CHECKING:
    from gateway.node.config import Config

app = typer.Typer(
    help="A gateway for RocketMQ, MQTT, CoAP, HTTP, gRPC and CloudEvents with a store of its own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
settings = typer.Typer(help="The configuration.", no_args_is_help=True)
app.add_typer(settings, name="config")

Data = Annotated[str | None, typer.Option(help="Folder of everything that is kept (default ./headgate-data).")]
Host = Annotated[str | None, typer.Option(help="Address to listen on (default 127.0.0.1).")]
Advertise = Annotated[str | None, typer.Option(help="Address that routes carry, when clients see another one.")]
PortOffset = Annotated[int | None, typer.Option(help="Shift every port by this much.")]
Port = Annotated[list[str] | None, typer.Option(metavar="NAME=N", help="One port, as in mqtt=1884. Can be repeated.")]
Level = Annotated[str | None, typer.Option(help="Durability of new topics: flushed (default) or page.")]
Insecure = Annotated[bool | None, typer.Option("--insecure", help="Accept a host that others can reach.")]
Admin = Annotated[str | None, typer.Option(metavar="NAME:PASSWORD", help="Control access; this is a first Super user.")]
AdminFile = Annotated[str | None, typer.Option(help="File whose first line is NAME:PASSWORD, as for --admin.")]
ClientCa = Annotated[str | None, typer.Option(help="PEM file of the authorities of client certificates.")]
Certificate = Annotated[str | None, typer.Option(help="PEM file for TLS (default: self-signed).")]
Key = Annotated[str | None, typer.Option(help="PEM file with the certificate's key.")]
File = Annotated[str | None, typer.Option("--config", help="TOML file (default $HEADGATE_CONFIG).")]


@app.command()
def up(
    data: Data = None,
    host: Host = None,
    advertise: Advertise = None,
    port_offset: PortOffset = None,
    port: Port = None,
    durability: Level = None,
    insecure: Insecure = None,
    certificate: Certificate = None,
    key: Key = None,
    admin: Admin = None,
    admin_file: AdminFile = None,
    client_ca: ClientCa = None,
    config: File = None,
) -> None:
    """Start everything in one process."""
    options = _options(
        data, host, advertise, port_offset, port, durability, insecure, certificate, key,
        admin, admin_file, client_ca,
    )  # fmt: skip
    from gateway.runtime.compiled import activate

    compiled = activate()
    from gateway.runtime.process import run

    raise typer.Exit(run(_load(options, config), compiled, lambda: _load(options, config)))


@settings.command("show")
def show(
    data: Data = None,
    host: Host = None,
    advertise: Advertise = None,
    port_offset: PortOffset = None,
    port: Port = None,
    durability: Level = None,
    insecure: Insecure = None,
    certificate: Certificate = None,
    key: Key = None,
    admin: Admin = None,
    admin_file: AdminFile = None,
    client_ca: ClientCa = None,
    config: File = None,
) -> None:
    """Print what would be in force, and where each value is from."""
    options = _options(
        data, host, advertise, port_offset, port, durability, insecure, certificate, key,
        admin, admin_file, client_ca,
    )  # fmt: skip
    from gateway.node.composition import defaults
    from gateway.runtime.memory import hot_bytes

    found = _load(options, config)
    rows = [*found.rows(), *defaults(found, hot_bytes())]
    width = max(len(name) for name, _, _ in rows)
    middle = max(len(value) for _, value, _ in rows)
    for name, value, source in rows:
        typer.echo(f"{name:<{width}}  {value:<{middle}}  {source}")


@app.command()
def version() -> None:
    """Print the version."""
    from importlib import metadata

    typer.echo(f"headgate {metadata.version('headgate')}")


def _options(
    data: str | None,
    host: str | None,
    advertise: str | None,
    port_offset: int | None,
    port: list[str] | None,
    durability: str | None,
    insecure: bool | None,
    certificate: str | None,
    key: str | None,
    admin: str | None,
    admin_file: str | None,
    client_ca: str | None,
) -> dict[str, object]:
    options: dict[str, object] = {
        "data": data,
        "host": host,
        "advertise": advertise,
        "port_offset": port_offset,
        "durability": durability,
        "insecure": insecure,
        "certificate": certificate,
        "key": key,
        "admin": admin,
        "admin_file": admin_file,
        "client_ca": client_ca,
    }
    for assignment in port or ():
        name, equals, number = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--port {assignment}: NAME=N is wanted, as in --port mqtt=1884")
        options[f"ports.{name}"] = number
    return options


def _load(options: dict[str, object], file: str | None) -> Config:
    from gateway.node.composition import part_names
    from gateway.node.config import load

    return load(options, os.environ, part_names(), file or os.environ.get("HEADGATE_CONFIG"))


def main() -> None:
    """Entry point of the console script."""
    try:
        code = app(standalone_mode=False, prog_name="headgate")
    except typer.Abort:
        code = 130
    except typer.TyperException as error:
        code = _refuse(error.format_message())
    except GatewayError as error:
        code = _refuse(str(error))
    sys.exit(code or 0)


def _refuse(text: str) -> int:
    line = " ".join(text.split())
    print(f"headgate: {line}", file=sys.stderr)
    return 2
