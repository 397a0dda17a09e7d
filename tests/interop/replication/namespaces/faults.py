"""The kinds of faults, each of which begins at once and is ended by what it returns.

A fault of the network parts nodes from nodes, and never from the tests at the bridge's address: a client reaches everybody.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Final, NamedTuple

from tests.interop.replication.namespaces.nodes import CONTROLLERS, COPY, GATEWAYS, GROUP, NEW, STORES, NamespaceCluster
from tests.patience import until

COMMAND_S: Final = 120.0
Cluster = NamespaceCluster


class Happening(NamedTuple):
    """A fault that has begun.

    text  what was done, for people
    end   ends it
    hit   gateways that cannot serve while it lasts
    """

    text: str
    end: Callable[[], None]
    hit: Collection[str] = ()


class Kind(NamedTuple):
    """A kind of faults.

    begin   begins one
    last_s  for how long it lasts at least: it ends when the cluster serves again, if that is later
    """

    begin: Callable[[Cluster, Random], Happening]
    last_s: float = 4.0


def _followers(cluster: Cluster) -> list[str]:
    leader = cluster.leader()
    return [name for name in STORES if name != leader]


def _kill(cluster: Cluster, names: Iterable[str]) -> Happening:
    killed = list(names)
    for each in killed:
        cluster.nodes[each].kill()
    return Happening(f"kill -9 of {', '.join(killed)}", cluster.heal, [each for each in killed if each in GATEWAYS])


def _pause(cluster: Cluster, name: str) -> Happening:
    cluster.nodes[name].pause()
    return Happening(f"{name} stands still", cluster.heal, [name] if name in GATEWAYS else ())


def _part(cluster: Cluster, some: Iterable[str], others: Iterable[str], hit: Collection[str] = ()) -> Happening:
    one, other = sorted(some), sorted(others)
    cluster.network.part(one, other)
    return Happening(f"{', '.join(one)} parted from {', '.join(other)}", cluster.network.heal, hit)


def _alone(cluster: Cluster, name: str) -> Happening:
    return _part(cluster, [name], _others(name), [name] if name in GATEWAYS else ())


def _others(*names: str) -> set[str]:
    return {*STORES, *CONTROLLERS, *GATEWAYS} - set(names)


def _one_way(cluster: Cluster, inwards: bool) -> Happening:
    """The leader hears nobody, or is heard by nobody: a cable with one broken wire."""
    leader = cluster.leader()
    if inwards:
        cluster.network.cut(_others(leader), [leader])
    else:
        cluster.network.cut([leader], _others(leader))
    return Happening(f"{leader} {'hears' if inwards else 'is heard by'} nobody", cluster.network.heal)


def _halves(cluster: Cluster, chance: Random) -> Happening:
    """The leader, a controller and a gateway on the small side."""
    small = [cluster.leader(), chance.choice(CONTROLLERS), chance.choice(GATEWAYS)]
    return _part(cluster, small, _others(*small), [each for each in small if each in GATEWAYS])


def _full(cluster: Cluster, name: str) -> Happening:
    cluster.volumes[name].fill()
    return Happening(f"the volume of {name} is full", cluster.heal)


def _slow(cluster: Cluster, name: str, chance: Random) -> Happening:
    delay = chance.randrange(300, 900)
    cluster.disks[name].slow(delay)
    return Happening(f"a sync of {name} takes {delay} ms longer", cluster.heal)


def _wiped(cluster: Cluster, chance: Random) -> Happening:
    """A follower comes back with an empty directory."""
    name = chance.choice(_followers(cluster))
    node, before = cluster.nodes[name], cluster.replicas_of(name)
    node.kill()
    _empty(cluster, name)
    node.start()

    def end() -> None:
        until(lambda: cluster.is_whole() or cluster.replicas_of(name) != before, COMMAND_S, cluster.state)
        for replica in cluster.replicas_of(name)[:-1]:
            cluster.headgate("remove", GROUP, str(replica))

    return Happening(f"{name} comes back with an empty directory", end)


def _copied(cluster: Cluster, name: str) -> Happening:
    """A copy of a store's directory is started elsewhere, while the store goes on."""
    shutil.copytree(cluster.nodes[name].data, cluster.nodes[COPY].data, dirs_exist_ok=True, copy_function=_copy_if_there)
    copy = cluster.nodes[COPY]
    copy.start()

    def end() -> None:
        assert not copy.serves(), f"{name} and a copy of its directory serve side by side"
        copy.kill()
        _empty(cluster, COPY)

    return Happening(f"a copy of the directory of {name} is started", end)


def _copy_if_there(source: str, target: str) -> None:
    """Files come and go in the directory of a store that runs."""
    try:
        shutil.copy2(source, target)
    except FileNotFoundError:
        return


def _empty(cluster: Cluster, name: str) -> None:
    for each in cluster.nodes[name].data.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()


def _added(cluster: Cluster, _chance: Random) -> Happening:
    """A fourth replica is added, and removed again in the end."""
    node = cluster.nodes[NEW]
    status, text = cluster.headgate("add", GROUP, "--address", f"{node.address}:10912")
    assert status == 0, text
    node.start()

    def end() -> None:
        until(cluster.is_whole, COMMAND_S, cluster.state)
        node.stop()
        until(lambda: not set(cluster.replicas_of(NEW)) & _in_sync(cluster), COMMAND_S, cluster.state)
        for replica in cluster.replicas_of(NEW):
            cluster.headgate("remove", GROUP, str(replica))
        _empty(cluster, NEW)

    return Happening(f"{NEW} is added", end)


def _in_sync(cluster: Cluster) -> set[int]:
    group = cluster.group()
    return set() if group is None else set(group.in_sync)


def _moved(cluster: Cluster, chance: Random) -> Happening:
    name = chance.choice(_followers(cluster))
    status, text = cluster.headgate("move", GROUP, str(cluster.replicas_of(name)[-1]))
    return Happening(f"{name} is to lead: status {status}, {text.strip()[-120:]}", lambda: None)


KINDS: Final[dict[str, Kind]] = {
    "kill leader": Kind(lambda cluster, _: _kill(cluster, [cluster.leader()]), 1.0),
    "kill follower": Kind(lambda cluster, chance: _kill(cluster, [chance.choice(_followers(cluster))]), 1.0),
    "kill controller": Kind(lambda cluster, _: _kill(cluster, [cluster.leading_controller()]), 1.0),
    "kill gateway": Kind(lambda cluster, chance: _kill(cluster, [chance.choice(GATEWAYS)]), 1.0),
    "kill leader, controller": Kind(lambda cluster, _: _kill(cluster, [cluster.leader(), cluster.leading_controller()]), 1.0),
    "pause leader": Kind(lambda cluster, _: _pause(cluster, cluster.leader()), 8.0),
    "pause follower": Kind(lambda cluster, chance: _pause(cluster, chance.choice(_followers(cluster))), 8.0),
    "pause controller": Kind(lambda cluster, _: _pause(cluster, cluster.leading_controller()), 8.0),
    "pause gateway": Kind(lambda cluster, chance: _pause(cluster, chance.choice(GATEWAYS))),
    "part leader, followers": Kind(lambda cluster, _: _part(cluster, [cluster.leader()], _followers(cluster)), 12.0),
    "part leader, controllers": Kind(lambda cluster, _: _part(cluster, [cluster.leader()], CONTROLLERS), 12.0),
    "part leader, all but gateways": Kind(
        lambda cluster, _: _part(cluster, [cluster.leader()], _others(cluster.leader(), *GATEWAYS)), 12.0
    ),
    "part leader, all": Kind(lambda cluster, _: _alone(cluster, cluster.leader()), 12.0),
    "leader hears nobody": Kind(lambda cluster, _: _one_way(cluster, True), 12.0),
    "leader is not heard": Kind(lambda cluster, _: _one_way(cluster, False), 12.0),
    "part follower, all": Kind(lambda cluster, chance: _alone(cluster, chance.choice(_followers(cluster))), 8.0),
    "part controller, all": Kind(lambda cluster, _: _alone(cluster, cluster.leading_controller()), 8.0),
    "part controllers, each other": Kind(lambda cluster, _: _each_alone(cluster), 8.0),
    "part gateway, all": Kind(lambda cluster, chance: _alone(cluster, chance.choice(GATEWAYS)), 8.0),
    "part halves": Kind(_halves, 12.0),
    "full disk of leader": Kind(lambda cluster, _: _full(cluster, cluster.leader()), 8.0),
    "full disk of follower": Kind(lambda cluster, chance: _full(cluster, chance.choice(_followers(cluster))), 8.0),
    "slow disk of leader": Kind(lambda cluster, chance: _slow(cluster, cluster.leader(), chance), 12.0),
    "slow disk of follower": Kind(lambda cluster, chance: _slow(cluster, chance.choice(_followers(cluster)), chance), 8.0),
    "wiped follower": Kind(_wiped, 2.0),
    "copied follower": Kind(lambda cluster, chance: _copied(cluster, chance.choice(_followers(cluster))), 10.0),
    "copied leader": Kind(lambda cluster, _: _copied(cluster, cluster.leader()), 10.0),
    "add and remove": Kind(_added, 4.0),
    "move": Kind(_moved, 2.0),
}  # fmt: skip


def _each_alone(cluster: Cluster) -> Happening:
    for name in CONTROLLERS:
        cluster.network.part([name], set(CONTROLLERS) - {name})
    return Happening("no controller reaches another one", cluster.network.heal)
