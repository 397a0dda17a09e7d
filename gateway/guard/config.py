"""The tables `[limits]` and `[proxy]` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

WAIT: Final = "wait"
REFUSE: Final = "refuse"
CLOSE: Final = "close"
LARGEST: Final = 1_000_000_000_000
"""Of any number here; more is a slip of the keyboard."""
Excess = Literal["wait", "refuse", "close"]
Rate = Annotated[int, Meta(ge=0, le=LARGEST)]
Least = Annotated[int, Meta(ge=1, le=LARGEST)]
"""What cannot be off."""


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """Whose word counts about whose a connection is.

    peers      addresses, networks and ranges that may send the PROXY protocol's header, written as in policies
    required   true: these peers must send it. false: they may
    """

    peers: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What is in force; 0 is no limit.

    connections_per_address     stream connections open at once from one address
    connects_per_s              new stream connections a second, from everywhere
    address_connects_per_s      the same from one address
    messages_per_s              messages sent by one connection (by one peer of a datagram port)
    bytes_per_s                 bytes of the bodies that one connection sends
    user_messages_per_s         messages sent by one user over all of its connections
    user_bytes_per_s            bytes of the bodies that one user sends over all of its connections
    burst_s                     how many seconds' worth of each rate may come at once
    mqtt_excess                 what MQTT clients meet beyond their rate: wait (they are not read), refuse (0x97), close (0x96)
    flapping_connects           connects of one MQTT client id within flapping_window_s before it is held off
    flapping_address_connects   the same for an address, on every stream port
    flapping_window_s           time over which connects are counted
    flapping_hold_s             how long they are held off
    output_bytes_max            answers that may wait for a peer that does not read; above this it is not read from either, and
                                dropped when that lasts a minute
    keys_max                    addresses, users and client ids that each table remembers
    """

    connections_per_address: Rate = 0
    connects_per_s: Rate = 0
    address_connects_per_s: Rate = 0
    messages_per_s: Rate = 0
    bytes_per_s: Rate = 0
    user_messages_per_s: Rate = 0
    user_bytes_per_s: Rate = 0
    burst_s: Least = 2
    mqtt_excess: Excess = WAIT
    flapping_connects: Rate = 0
    flapping_address_connects: Rate = 0
    flapping_window_s: Least = 60
    flapping_hold_s: Least = 300
    output_bytes_max: Least = 65_536
    keys_max: Least = 65_536

    @property
    def limits_connections(self) -> bool:
        """True when something limits who may connect."""
        return any(
            (self.connections_per_address, self.connects_per_s, self.address_connects_per_s, self.flapping_address_connects)
        )

    @property
    def limits_messages(self) -> bool:
        """True when something limits what connected clients may do."""
        return any(
            (self.messages_per_s, self.bytes_per_s, self.user_messages_per_s, self.user_bytes_per_s, self.flapping_connects)
        )
