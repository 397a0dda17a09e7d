"""The commands `headgate cluster …`. A refusal ends them with one line on stderr and exit status 2 (gateway/node/cli.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gateway.cluster.operator.controllers import ClusterControllers

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
ACCEPT_LOSS = Annotated[bool, typer.Option("--accept-loss", help="Without it, only tell what would be lost.")]
TYPED = Annotated[str, typer.Option(help="Name of the group once more (default: it is asked for).")]
CONTROLLER = Annotated[
    str, typer.Option("--controller-address", metavar="HOST:PORT", help="A controller that is added or removed.")
]
HERE = "127.0.0.1:9878"


@contextmanager
def asked_controllers(at: str, key_file: str, ca: str) -> Iterator[ClusterControllers]:
    from gateway.client.security import KeyPlace, Tls
    from gateway.cluster.operator.controllers import ClusterControllers

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

    The leaders of store groups are reached from here, too: run it where clients and gateways are.

    Exit status: 0 all is well, 1 something lacks (the last lines say what), 2 not known.
    """
    from gateway.cluster.operator import status as page

    with asked_controllers(at, key_file, ca) as controllers:
        seen = controllers.seen()
        groups = controllers.groups()
        faults = [*page.faults(seen, groups), *page.unreached(groups, controllers.why_not_reached)]
    if as_json:
        typer.echo(json.dumps(page.as_json(seen, groups, faults), indent=2))
    else:
        for line in page.lines(seen, groups, faults):
            typer.echo(line)
    raise typer.Exit(page.SOMETHING_LACKS if faults else page.ALL_WELL)


@cluster.command()
def move(
    group: GROUP, replica: REPLICA, at: AT = HERE, key_file: KEY = "", ca: CA = "",
    seconds: Annotated[float, typer.Option(min=0, help="Seconds to wait until a replica out of sync has what it lacks.")] = 15,
) -> None:  # fmt: skip
    """Have another replica lead a store group. Clients reconnect to it; nothing is lost.

    One that is not in sync is waited for: the leader takes it in once it has all that is confirmed. Where the leader does not
    reach it, another replica in sync leads meanwhile. Or it says why not.

    Example: headgate cluster move broker-a 2
    """
    from gateway.cluster.operator import moving

    with asked_controllers(at, key_file, ca) as controllers:
        raise typer.Exit(moving.move(controllers, group, replica, seconds, typer.echo))


@cluster.command()
def add(
    group: Annotated[str, typer.Argument(metavar="[GROUP]", help="Store group that gets a replica.")] = "",
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="Port replication of the new replica.")] = "",
    learner: Annotated[bool, typer.Option("--learner", help="The replica gets the log and is never elected.")] = False,
    controller_address: CONTROLLER = "",
    seconds: Annotated[float, typer.Option(min=0, help="Seconds to wait until a controller votes.")] = 60,
    at: AT = HERE, key_file: KEY = "", ca: CA = "",
) -> None:  # fmt: skip
    """Add a replica: print its configuration. Add a controller, which runs already: it votes afterwards.

    Examples: headgate cluster add broker-a --address 10.0.0.4:10912 > replica.toml

              headgate cluster add --controller-address 10.0.0.8:9878

    Exit status: 0 done, 1 the controller does not vote within the time, 2 refused.
    """
    from domain.errors import ConfigError
    from gateway.cluster.operator import membership

    if bool(group) == bool(controller_address) or bool(group) != bool(address):
        raise ConfigError("name a store group and --address of its new replica, or --controller-address of a new controller")
    with asked_controllers(at, key_file, ca) as controllers:
        if group:
            raise typer.Exit(membership.add_replica(controllers, group, address, learner, typer.echo))
        raise typer.Exit(membership.add_controller(controllers, controller_address, seconds, typer.echo))


@cluster.command()
def remove(
    group: Annotated[str, typer.Argument(metavar="[GROUP]", help="Store group that loses replicas.")] = "",
    replicas: Annotated[list[int] | None, typer.Argument(metavar="REPLICA...", help="As in the table of status.")] = None,
    at: AT = HERE, key_file: KEY = "", ca: CA = "",
    whole: Annotated[bool, typer.Option("--all", help="All replicas: the store group goes.")] = False,
    even_living: Annotated[bool, typer.Option("--even-living", help="Remove replicas that are alive, too.")] = False,
    controller_address: CONTROLLER = "",
    seconds: Annotated[float, typer.Option(min=0, help="Seconds to wait until a controller votes no more.")] = 60,
) -> None:  # fmt: skip
    """Forget replicas that are gone for good, or a whole store group; their numbers are not given again. Or a controller.

    Examples: headgate cluster remove broker-a 3

              headgate cluster remove --controller-address 10.0.0.8:9878
    """
    from domain.errors import ConfigError
    from gateway.cluster.operator import membership, orders

    if controller_address:
        if group or replicas or whole:
            raise ConfigError("name replicas of a store group to remove, or --controller-address of a controller, not both")
        with asked_controllers(at, key_file, ca) as controllers:
            raise typer.Exit(membership.remove_controller(controllers, controller_address, seconds, typer.echo))
    if not group or bool(replicas) == whole:
        raise ConfigError("name the replicas to remove, or give --all for the whole store group")
    with asked_controllers(at, key_file, ca) as controllers:
        raise typer.Exit(orders.remove(controllers, group, replicas or (), even_living, typer.echo))


@cluster.command("set")
def set_group(
    group: GROUP,
    min_in_sync: Annotated[
        int | None,
        typer.Option("--min-in-sync", min=0, metavar="N", help="Replicas that a send above flushed needs; 0: the default."),
    ] = None,
    acks: Annotated[
        int | None,
        typer.Option("--acks", min=0, metavar="N", help="Replicas in sync that confirm a record; 0: all of them, the default."),
    ] = None,
    at: AT = HERE, key_file: KEY = "", ca: CA = "",
) -> None:  # fmt: skip
    """Change how many replicas have to be in sync for sends above flushed, and how many of those confirm a record.

    With --acks 2 of three replicas a send does not wait for the slowest one. An election needs two of them then: one that is
    left alone does not lead. Both hold until they are changed again.

    Examples: headgate cluster set broker-a --min-in-sync 2

              headgate cluster set broker-a --acks 2
    """
    from domain.errors import ConfigError
    from gateway.cluster.operator import orders

    if min_in_sync is None and acks is None:
        raise ConfigError("say what to change: --min-in-sync N, or --acks N")
    with asked_controllers(at, key_file, ca) as controllers:
        if min_in_sync is not None:
            orders.set_least(controllers, group, min_in_sync, typer.echo)
        if acks is not None:
            orders.set_acks(controllers, group, acks, typer.echo)


@cluster.command()
def repair(
    groups: Annotated[list[str] | None, typer.Argument(metavar="GROUP...", help="None: all.")] = None,
    replicas: Annotated[
        int, typer.Option(min=0, metavar="N", help="Wait until each group has N replicas, added ones too; 0: those it has.")
    ] = 0,
    seconds: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 3_600,
    at: AT = HERE, key_file: KEY = "", ca: CA = "",
) -> None:  # fmt: skip
    """Show how replicas that are not in sync come back, until all are. They do so by themselves; this waits for it.

    Example after a fourth replica was started: headgate cluster repair broker-a --replicas 4 --seconds 600

    Exit status: 0 all are in sync, 1 not within the time.
    """
    from gateway.cluster.operator import orders

    with asked_controllers(at, key_file, ca) as controllers:
        raise typer.Exit(orders.await_strength(controllers, groups or (), replicas, seconds, typer.echo))


@cluster.command("restore-controllers")
def restore_controllers(
    group: GROUP,
    replica: Annotated[int, typer.Argument(metavar="[REPLICA]", min=0, help="Whose log it is; none: the longest one.")] = 0,
    replicas: Annotated[
        int, typer.Option("--replicas", min=0, metavar="N", help="Replicas that the group had; with fewer nothing is changed.")
    ] = 0,
    at: AT = HERE, key_file: KEY = "", ca: CA = "",
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Take a log that is not the longest: what it lacks is set aside elsewhere.")
    ] = False,
) -> None:  # fmt: skip
    """Restore what controllers have lost that do not know the newest election of a store group, from the logs of its replicas.

    So it is when the controllers have lost their folders or have an older copy of them, and when a node that went on alone is
    to begin a group. With neither REPLICA nor --replicas the logs of all replicas that have registered are shown. Start all
    replicas before: the longest log may be that of one that is still away.

    Examples: headgate cluster restore-controllers broker-a

              headgate cluster restore-controllers broker-a --replicas 3
    """
    from gateway.cluster.operator import restoring

    with asked_controllers(at, key_file, ca) as controllers:
        raise typer.Exit(restoring.restore(controllers, group, replica, replicas, accept_loss, typer.echo))


cluster.command("found", hidden=True)(restore_controllers)
"""The name of the command in earlier versions."""


@cluster.command()
def promote(
    group: GROUP, replica: REPLICA, at: AT = HERE, key_file: KEY = "", ca: CA = "",
    accept_loss: ACCEPT_LOSS = False, name: TYPED = "",
) -> None:  # fmt: skip
    """Let a remote replica, or another learner, lead, since all others are lost. WHAT IT LACKS IS LOST: it says how much.

    It is refused while a replica that has all records is alive, or can be elected.

    Example: headgate cluster promote broker-a 4 --accept-loss
    """
    from gateway.cluster.operator import orders

    with asked_controllers(at, key_file, ca) as controllers:
        raise typer.Exit(orders.promote(controllers, group, replica, accept_loss, lambda: _typed(name, group), typer.echo))


@cluster.command()
def recover(
    group: GROUP, replica: REPLICA, at: AT = HERE, key_file: KEY = "", ca: CA = "",
    accept_loss: ACCEPT_LOSS = False, name: TYPED = "",
) -> None:  # fmt: skip
    """Give up replicas that do not come back: another one, which is not in sync, leads. ACKNOWLEDGED RECORDS ARE LOST.

    It is refused while a replica that has all records is alive, or can be elected.

    Example: headgate cluster recover broker-a 3 --accept-loss
    """
    from gateway.cluster.operator import orders

    with asked_controllers(at, key_file, ca) as controllers:
        raise typer.Exit(orders.recover(controllers, group, replica, accept_loss, lambda: _typed(name, group), typer.echo))


def _typed(name: str, group: str) -> str:
    """The name of a store group as the operator types it, who gives records up: `name`, or the answer to a question."""
    return name or str(typer.prompt(f"Type the name of the store group to lose these records ({group})"))
