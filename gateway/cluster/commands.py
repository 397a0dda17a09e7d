"""The commands `headgate cluster …`. A refusal ends them with one line on stderr and exit status 2 (gateway/node/cli.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gateway.cluster.controllers import ClusterControllers

cluster = typer.Typer(
    help="Controllers and store groups: who leads, who is in sync, and what an operator decides.\n\n"
    "Example: headgate cluster status --controller 10.0.0.5:9878",
    no_args_is_help=True,
)

AT = Annotated[
    str,
    typer.Option(
        "--controller",
        metavar="HOST:PORT",
        envvar="HEADGATE_CONTROLLER",
        help="A controller, or several (A,B).",
    ),
]
KEY = Annotated[str, typer.Option("--key-file", help="File with NAME:PASSWORD of a user with the right Update on the cluster.")]
CA = Annotated[str, typer.Option("--ca", help="PEM file: connections use TLS.")]
GROUP = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the store group, as broker-a.")]
REPLICA = Annotated[int, typer.Argument(metavar="REPLICA", min=1, help="Number of the replica, as in the table of status.")]
HERE = "127.0.0.1:9878"


@contextmanager
def _controllers(at: str, key_file: str, ca: str) -> Iterator[ClusterControllers]:
    from gateway.client.security import KeyPlace, Tls
    from gateway.cluster.controllers import ClusterControllers

    addresses = [each.strip() for each in at.replace(";", ",").split(",") if each.strip()]
    found = ClusterControllers(addresses, Tls(ca) if ca else None, KeyPlace(key_file) if key_file else None)
    try:
        yield found
    finally:
        found.close()


@cluster.command()
def status(
    at: AT = HERE, key_file: KEY = "", ca: CA = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:  # fmt: skip
    """Show controllers, store groups and replicas.

    Example: headgate cluster status --controller 10.0.0.5:9878

    Exit status: 0 all is well, 1 something lacks (the last lines say what), 2 not known.
    """
    from gateway.cluster import status as page

    with _controllers(at, key_file, ca) as controllers:
        seen = controllers.seen()
        groups = controllers.groups()
    if as_json:
        typer.echo(json.dumps(page.as_json(seen, groups), indent=2))
    else:
        for line in page.lines(seen, groups):
            typer.echo(line)
    raise typer.Exit(page.SOMETHING_LACKS if page.faults(seen, groups) else page.ALL_WELL)


@cluster.command()
def move(group: GROUP, replica: REPLICA, at: AT = HERE, key_file: KEY = "", ca: CA = "") -> None:
    """Have another replica lead a store group: one that is in sync. Clients begin anew at it; nothing is lost.

    Example: headgate cluster move broker-a 2
    """
    from gateway.cluster import orders

    with _controllers(at, key_file, ca) as controllers:
        raise typer.Exit(orders.move(controllers, group, replica, typer.echo))


@cluster.command()
def remove(
    group: GROUP,
    replicas: Annotated[list[int] | None, typer.Argument(metavar="REPLICA...", help="As in the table of status.")] = None,
    at: AT = HERE, key_file: KEY = "", ca: CA = "",
    whole: Annotated[bool, typer.Option("--all", help="All replicas: the store group goes.")] = False,
    even_living: Annotated[bool, typer.Option("--even-living", help="Remove replicas that are alive, too.")] = False,
) -> None:  # fmt: skip
    """Forget replicas that are gone for good, or a whole store group. Their numbers are not given again.

    Example: headgate cluster remove broker-a 3
    """
    from domain.errors import ConfigError
    from gateway.cluster import orders

    if bool(replicas) == whole:
        raise ConfigError("name the replicas to remove, or give --all for the whole store group")
    with _controllers(at, key_file, ca) as controllers:
        raise typer.Exit(orders.remove(controllers, group, replicas or (), even_living, typer.echo))


@cluster.command()
def repair(
    groups: Annotated[list[str] | None, typer.Argument(metavar="GROUP...", help="None: all.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 3_600,
    at: AT = HERE, key_file: KEY = "", ca: CA = "",
) -> None:  # fmt: skip
    """Show how replicas that are not in sync come back, until all are. They do so by themselves; this waits for it.

    Example: headgate cluster repair broker-a --seconds 600

    Exit status: 0 all are in sync, 1 not within the time.
    """
    from gateway.cluster import orders

    with _controllers(at, key_file, ca) as controllers:
        raise typer.Exit(orders.await_strength(controllers, groups or (), seconds, typer.echo))


@cluster.command()
def recover(
    group: GROUP, replica: REPLICA, at: AT = HERE, key_file: KEY = "", ca: CA = "",
    accept_loss: Annotated[bool, typer.Option("--accept-loss", help="Without it, only tell what would be lost.")] = False,
    name: Annotated[str, typer.Option(help="Name of the group once more (default: it is asked for).")] = "",
) -> None:  # fmt: skip
    """Give up replicas that do not come back: another one, which is not in sync, leads. ACKNOWLEDGED RECORDS ARE LOST.

    It is refused while a replica that has all records is alive, or can be elected.

    Example: headgate cluster recover broker-a 3 --accept-loss
    """
    from gateway.cluster import orders

    with _controllers(at, key_file, ca) as controllers:

        def ask() -> str:
            return name or str(typer.prompt(f"Type the name of the store group to lose these records ({group})"))

        raise typer.Exit(orders.recover(controllers, group, replica, accept_loss, ask, typer.echo))
