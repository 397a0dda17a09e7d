"""The table `[store.state]` of a gateway before an Apache RocketMQ cluster whose state is at another node."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.link.servers import Servers
from gateway.node.roles.store_address import Connections, Frames, Seconds, StoreAddress, node_endpoints


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
