"""The tables `[limits]` and `[proxy]` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

WAIT: Final = "wait"
CLOSE: Final = "close"
LARGEST: Final = 1_000_000_000_000
"""Upper bound of all limits; a larger number is taken for a typing error and refused."""
Excess = Literal["wait", "refuse", "close"]
Rate = Annotated[int, Meta(ge=0, le=LARGEST)]
Least = Annotated[int, Meta(ge=1, le=LARGEST)]
"""A limit that cannot be switched off: at least 1."""


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The table `[proxy]`: which peers may send the PROXY protocol's header with a client's address.

    peers      addresses, networks and ranges of peers that may send the PROXY protocol's header, written as in policies
    required   true: these peers must send the header; false: they may
    """

    peers: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class LimitsSettings:
    """The table `[limits]`; 0 means no limit. The addresses of one IPv6 /64 count as one address.

    connections_per_address     stream connections open at once from one address; 0: half of those that the node takes. A number
                                above connections_max is no limit. Clients of a proxy (`[proxy]`) count by their own addresses
    connects_per_s              new stream connections a second, from all addresses
    address_connects_per_s      new stream connections a second from one address
    messages_per_s              messages a second sent by one connection (by one peer of a datagram port). Each other command
                                that writes to the log counts as one: SUBSCRIBE, CONNECT, changes of topics, groups, users
    bytes_per_s                 bytes of message bodies a second sent by one connection, and bytes that its other commands have
                                written to the log, acknowledgements and positions included
    address_messages_per_s      the messages of all connections of one address
    address_bytes_per_s         their bytes
    user_messages_per_s         the messages of one user over all of its connections
    user_bytes_per_s            their bytes
    burst_s                     a burst may be as large as the rate times this many seconds
    mqtt_excess                 what happens to MQTT clients above their rate: wait (the connection is not read), refuse (reason
                                code 0x97), close (reason code 0x96)
    flapping_connects           connects of one MQTT client id within flapping_window_s after which the client id is refused
    flapping_address_connects   connects of one address within flapping_window_s, over all stream ports, after which the address
                                is refused
    flapping_window_s           period over which connects are counted, in seconds
    flapping_hold_s             how long a flapping client id or address is refused, in seconds
    failed_logins               failed logins of one host, and of one user from one host, that cost nothing. Each further one
                                makes the next wait: a second from the same host, one to sixty as the same user from there
    lockout_failures            failed logins as one user from one host after which none is looked at for lockout_s; 0: never
    lockout_s                   seconds for which logins as that user from that host are refused then
    output_bytes_max            bytes of answers that may wait for a peer that does not read; above this the connection is not
                                read, and it is closed when that lasts a minute
    keys_max                    addresses, users and client ids that each table of counts holds at most
    """

    connections_per_address: Rate = 0
    connects_per_s: Rate = 0
    address_connects_per_s: Rate = 0
    messages_per_s: Rate = 0
    bytes_per_s: Rate = 0
    address_messages_per_s: Rate = 0
    address_bytes_per_s: Rate = 0
    user_messages_per_s: Rate = 0
    user_bytes_per_s: Rate = 0
    burst_s: Least = 2
    mqtt_excess: Excess = WAIT
    flapping_connects: Rate = 0
    flapping_address_connects: Rate = 0
    flapping_window_s: Least = 60
    flapping_hold_s: Least = 300
    failed_logins: Rate = 9
    lockout_failures: Rate = 0
    lockout_s: Annotated[int, Meta(ge=1, le=31_536_000)] = 900
    output_bytes_max: Least = 65_536
    keys_max: Least = 65_536

    @property
    def limits_messages(self) -> bool:
        """True when at least one limit on messages, bytes or MQTT connects is set."""
        return bool(
            self.messages_per_s or self.bytes_per_s or self.address_messages_per_s or self.address_bytes_per_s
            or self.user_messages_per_s or self.user_bytes_per_s or self.flapping_connects
        )  # fmt: skip
