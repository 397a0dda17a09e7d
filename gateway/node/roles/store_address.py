"""The nodes that a gateway forwards to: the store of the table `[gateway]`, and the state node of `[store.state]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from gateway.link.servers import Servers, endpoints_of

Seconds = Annotated[int, Meta(ge=1, le=300)]
Connections = Annotated[int, Meta(ge=1, le=16)]
Frames = Annotated[int, Meta(ge=1, le=2)]
STORES_MAX: Final = 16
"""Addresses of one store."""
REPLICA_ANSWER_S: Final = 1.0
REPLICA_SILENCE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Settings of a gateway without the role store. Raises ValueError for values that are not valid.

    store             `HOST:PORT` of the remoting port of the store; of a replicated one several, with commas between: there a
                      gateway begins to look. The store that it reaches reports all of them, also those that are added later
    access_key_file   file whose first line is `NAME:PASSWORD` of a Super user at the store, read again for each connection;
                      "": the store does not control access
    store_ca          PEM file of the authorities of the store's certificate, or that certificate: the connection uses TLS;
                      "": plain text
    answer_s          seconds that the store has to accept a connection and to answer its greeting; each of several has a second
    connections       connections to the store; each client stays with one of them. A large answer, or a connection that hangs,
                      delays the clients of one connection and no others
    frames            newest version of the frames between gateways and stores that this node speaks, gateway or store; the one
                      before it is spoken too, and a connection has the newest that both sides speak
    silence_s         seconds without a byte of the store after which its connection is closed; it is asked for a sign before.
                      Of several addresses each has two seconds
    controllers       `HOST:PORT` of the controllers of its store group, which get a report while the gateway finds no leader,
                      for `headgate cluster status`; empty: a gateway that has never found a leader is not seen there
    controllers_key_file  file whose first line is `NAME:PASSWORD` of a user with the right Get on the cluster at the
                      controllers; "": requests to them are not signed
    controllers_ca    PEM file of the authorities of the controllers' certificates: connections use TLS; "": plain text
    """

    store: str = ""
    access_key_file: str = ""
    store_ca: str = ""
    answer_s: Seconds = 5
    silence_s: Seconds = 10
    connections: Connections = 1
    frames: Frames = 2
    controllers: tuple[str, ...] = ()
    controllers_key_file: str = ""
    controllers_ca: str = ""

    def __post_init__(self) -> None:
        endpoints_of(self.controllers, "controllers", "a controller", 9878)
        count = len(self.servers.endpoints)
        if count > STORES_MAX:
            raise ValueError(f"{count} addresses, at most {STORES_MAX} are possible")

    @property
    def versions(self) -> tuple[int, ...]:
        """Versions of frames that this node speaks, the newest first."""
        return tuple(range(self.frames, 0, -1))

    @property
    def servers(self) -> Servers:
        """The store, or each replica of it."""
        return Servers("gateway", node_endpoints(self.store, "store"), self.access_key_file, self.store_ca, ca_name="store_ca")

    @property
    def controller_servers(self) -> Servers:
        """The controllers; no endpoint: none are named."""
        return Servers(
            "gateway", endpoints_of(self.controllers, "controllers", "a controller", 9878), self.controllers_key_file,
            self.controllers_ca, ca_name="controllers_ca", key_name="controllers_key_file",
        )  # fmt: skip

    def patience_s(self, addresses: int) -> tuple[float, float]:
        """Seconds for an answer, and for a sign of life, with N addresses: short where another replica may lead by now."""
        if addresses == 1:
            return self.answer_s, self.silence_s
        return min(self.answer_s, REPLICA_ANSWER_S), min(self.silence_s, REPLICA_SILENCE_S)


@dataclass(frozen=True, slots=True)
class StateAddress:
    """Settings of `[store.state]` with `address`. Raises ValueError for values that are not valid.

    address           `HOST:PORT` of the remoting port of the state node
    access_key_file   file whose first line is `NAME:PASSWORD` of a Super user there, read again for each connection; "": the
                      state node does not control access
    ca                PEM file of the authorities of its certificate, or that certificate: the connection uses TLS; "": plain
                      text
    answer_s          as in `[gateway]`
    silence_s         as in `[gateway]`
    connections       as in `[gateway]`
    frames            as in `[gateway]`
    """

    address: str
    access_key_file: str = ""
    ca: str = ""
    answer_s: Seconds = 5
    silence_s: Seconds = 10
    connections: Connections = 1
    frames: Frames = 2

    def __post_init__(self) -> None:
        if not self.address:
            raise ValueError("address is empty: HOST:PORT of the state node's remoting port is wanted")
        node_endpoints(self.address, "address")
        self.of_node()

    @property
    def servers(self) -> Servers:
        """The state node."""
        return Servers("store.state", node_endpoints(self.address, "address"), self.access_key_file, self.ca)

    def of_node(self) -> StoreAddress:
        """The same as the settings of connections to a store."""
        return StoreAddress(
            self.address, self.access_key_file, self.ca, self.answer_s, self.silence_s, self.connections, self.frames
        )


def node_endpoints(texts: str, setting: str) -> tuple[tuple[str, int], ...]:
    """`HOST:PORT` of the remoting ports of nodes, with commas between -> (host, port) of each, once. Raises ValueError."""
    return endpoints_of(filter(str.strip, texts.split(",")), setting, "the node's remoting port", 10911)
