"""Where suites of foreign tests run: a node of ours, a gateway before brokers of Apache's, or Apache's proxy before the same.

    with place("gateway", folder) as there:
        there.nameserver, there.grpc, there.brokers["broker-a"]

What passes at Apache's proxy must pass at the gateway: the brokers of both have the same settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.node import Node
from tests.interop.rocketmq.apache import TWO, ApacheCluster
from tests.interop.rocketmq.proxy import ApacheProxy
from tests.interop.rocketmq.relays import HOST, RelayNode

PATIENT: Final[dict[str, object]] = {"transactionCheckInterval": 10_000}
"""Settings of brokers for suites that count messages of transactions.

A broker stores a half message again each time it asks about it, and reads what was decided only after three seconds
(`transactionOpBatchInterval`). With the usual interval of tests, three seconds, it asks about messages that were decided, and
each answer to commit is one message more.
"""
NODE: Final = "node"
GATEWAY: Final = "gateway"
APACHE: Final = "apache"
PLACES: Final = (NODE, GATEWAY, APACHE)


@dataclass(frozen=True, slots=True)
class Place:
    """Addresses, each host:port.

    nameserver   for remoting clients and tools
    grpc         for gRPC clients
    brokers      name of a broker -> where remoting clients reach it
    """

    nameserver: str
    grpc: str
    brokers: Mapping[str, str]


@contextmanager
def place(
    kind: str, folder: Path, environment: Mapping[str, str] | None = None, names: Sequence[str] = TWO, **settings: object
) -> Iterator[Place]:
    """One of PLACES, until the end of the block.

    environment   of our own processes
    names         of Apache's brokers; a node of ours is one broker whatever they are
    settings      of Apache's brokers, beside the usual ones
    """
    if kind == NODE:
        with Node(folder / "node", "--durability", "page", environment=dict(environment or {})) as node:
            at = f"{HOST}:{node.port('remoting')}"
            yield Place(f"{HOST}:{node.port('nameserver')}", f"{HOST}:{node.port('grpc')}", {"broker-a": at})
        return
    with ApacheCluster(folder / "apache", names, **settings) as apache, before(kind, apache, folder, environment) as there:
        yield there


@contextmanager
def before(kind: str, apache: ApacheCluster, folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[Place]:
    """A gateway, or Apache's proxy, before a cluster that runs already. Remoting clients pass the proxy by."""
    if kind == GATEWAY:
        nameserver, count = apache.nameserver.address, len(apache.brokers)
        with RelayNode(folder / "gateway", nameserver, brokers=count, environment=environment) as relay:
            ports = {name: relay.at(number) for number, name in enumerate(sorted(apache.brokers))}
            yield Place(relay.nameserver, f"{HOST}:{relay.node.port('grpc')}", ports)
    elif kind == APACHE:
        with ApacheProxy(folder / "proxy", apache.nameserver.address) as proxy:
            ports = {name: broker.address for name, broker in apache.brokers.items()}
            yield Place(apache.nameserver.address, f"{HOST}:{proxy.grpc}", ports)
    else:
        raise ValueError(f"{kind} is none of {PLACES}")
