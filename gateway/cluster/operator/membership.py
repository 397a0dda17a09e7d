"""`headgate cluster add` and `remove`: the configuration of a new replica, and other numbers of controllers while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from domain.address import endpoint_of
from domain.controller.group import StoreGroup
from domain.controller.request import ControllerFound
from domain.errors import ConfigError
from gateway.cluster.operator.controllers import ClusterControllers, ControllerSeen
from gateway.cluster.operator.orders import DONE, NOT_YET, Say

POLL_S: Final = 0.5


def add_replica(controllers: ClusterControllers, name: str, address: str, learner: bool, say: Say) -> int:
    """Print the configuration with which a node becomes a replica of a group. Raises ConfigError when it could not.

    Nothing is changed: the node is known to the controllers from its first start on.
    """
    group, _ = controllers.group(name)
    endpoint = _endpoint(address)
    taken = next((each for each in group.replicas if each.address == address), None)
    if taken is not None:
        raise ConfigError(f"replica {taken.id} of {name} is at {address} already")
    controllers.seen()
    known = ", ".join(f'"{each}"' for each in controllers.addresses)
    for line in (
        f"# A replica of store group {name}: start it with",
        "#   headgate run --roles gateway,store --config replica.toml --data DIRECTORY",
        f"# then wait until it is in sync: headgate cluster repair {name}{_wanted(group, learner)}",
        "# Gateways learn its address by themselves. Where access is controlled, add admin_file, and access_key_file to",
        "# [replication]; where remoting SDKs connect straight to the leader, the table [registration] of the other replicas.",
        f'cluster = "{group.cluster}"',
        f'broker = "{group.name}"',
        f'host = "{endpoint[0]}"',
        "",
        "[ports]",
        f"replication = {endpoint[1]}",
        "",
        "[replication]",
        f"controllers = [{known}]",
        f'address = "{address}"',
        *(["learner = true   # it gets the log and is never elected; without this line it may lead"] if learner else []),
    ):
        say(line)
    return DONE


def _wanted(group: StoreGroup, learner: bool) -> str:
    """The option of `repair` that waits for one more replica."""
    return "" if learner else f" --replicas {group.strength + 1}"


def add_controller(
    controllers: ClusterControllers, address: str, seconds: float, say: Say, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Take one more controller in, which runs already -> DONE once it votes. Raises ConfigError when it is refused."""
    _endpoint(address)
    before = controllers.seen()
    new = controllers.controller(address)
    if new.found is None:
        raise ConfigError(
            f"nothing was changed: {address} does not answer ({new.why}). Start it first: headgate run --roles controller, "
            f"with controller.peers = {_peers(before, address)}"
        )
    known = {each.found.node for each in before if each.found is not None and each.address != address}
    if new.found.node in known or (new.found.term and not known & {*new.found.voters, *new.found.learners}):
        raise ConfigError(
            f"nothing was changed: the controller at {address} is one of these, or of a group of its own; a new one is wanted, "
            f"with an empty directory and controller.peers = {_peers(before, address)}"
        )
    _asked(controllers, address, remove=False)
    return _await(controllers, address, True, seconds, say, sleep)


def remove_controller(
    controllers: ClusterControllers, address: str, seconds: float, say: Say, sleep: Callable[[float], None] = time.sleep
) -> int:
    """Let a controller go, whether it answers or not -> DONE once it votes no more. Raises ConfigError when it is refused."""
    book = next((each.found.book for each in controllers.seen() if each.found is not None and each.found.leads), ())
    if book and address not in book:
        raise ConfigError(f"there is no controller at {address}: there are {', '.join(book)}")
    _asked(controllers, address, remove=True)
    return _await(controllers, address, False, seconds, say, sleep)


def _asked(controllers: ClusterControllers, address: str, remove: bool) -> None:
    why = controllers.change_controllers(address, remove)
    if why:
        raise ConfigError(f"nothing was changed: {why}")


def _await(
    controllers: ClusterControllers, address: str, is_added: bool, seconds: float, say: Say, sleep: Callable[[float], None]
) -> int:
    end = time.monotonic() + seconds
    printed = ""
    while True:
        seen = controllers.seen()
        leader = next((each.found for each in seen if each.found is not None and each.found.leads), None)
        state = "nobody leads just now" if leader is None else _state(leader, address, is_added)
        if leader is not None and not state:
            votes = f"{len(leader.voters)} controllers vote: {', '.join(leader.book)}"
            say(f"{address} votes; {votes}" if is_added else f"{address} votes no more, and can be stopped; {votes}")
            say("next: bring peers and controllers up to date in the files of all nodes; nothing waits for it")
            return DONE
        if state != printed:
            say(state)
            printed = state
        if time.monotonic() >= end:
            say("it is decided, and not done yet: headgate cluster status shows when it is")
            return NOT_YET
        sleep(POLL_S)


def _state(leader: ControllerFound, address: str, is_added: bool) -> str:
    """The pending step; "": none."""
    node = next((node for node, where in leader.places.items() if where == address), 0)
    if (address in leader.book) != is_added:
        return "the one that leads does not know it yet"
    if is_added and not node:
        return f"{address} does not answer to the one that leads"
    if is_added and node not in leader.voters:
        return f"{address} gets the log, and does not vote yet"
    return leader.changing


def _endpoint(address: str) -> tuple[str, int]:
    found = endpoint_of(address)
    if found is None:
        raise ConfigError(f"{address!r} is no address: HOST:PORT is wanted, as in 10.0.0.5:9878")
    return found


def _peers(seen: Sequence[ControllerSeen], address: str) -> str:
    return "[" + ", ".join(f'"{each}"' for each in dict.fromkeys((*(one.address for one in seen), address))) + "]"
