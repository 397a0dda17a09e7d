"""The table `[limits]` of the configuration."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from domain.errors import ConfigError

WAIT: Final = "wait"
REFUSE: Final = "refuse"
CLOSE: Final = "close"
EXCESSES: Final = (WAIT, REFUSE, CLOSE)
LARGEST: Final = 1_000_000_000_000
"""Of any number here; more is a slip of the keyboard."""

POSITIVE: Final = ("burst_s", "flapping_window_s", "flapping_hold_s", "keys_max", "output_bytes_max")
"""What cannot be off."""


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """What is in force; 0 is no limit.

    connections_per_address     stream connections open at once from one address
    connects_per_s              new stream connections a second, from everywhere
    address_connects_per_s      the same from one address
    messages_per_s, bytes_per_s             sent by one connection (by one peer of a datagram port); bytes are those of bodies
    user_messages_per_s, user_bytes_per_s   sent by one user over all of its connections
    burst_s                     how many seconds' worth of each rate may come at once
    mqtt_excess                 what MQTT clients meet beyond their rate: wait (they are not read), refuse (0x97), close (0x96)
    flapping_connects           connects of one MQTT client id within flapping_window_s before it is held off
    flapping_address_connects   the same for an address, on every stream port
    flapping_hold_s             how long they are held off
    output_bytes_max            answers that may wait for a peer that does not read; above this it is not read from either, and
                                dropped when that lasts a minute
    keys_max                    addresses, users and client ids that each table remembers
    """

    connections_per_address: int = 0
    connects_per_s: int = 0
    address_connects_per_s: int = 0
    messages_per_s: int = 0
    bytes_per_s: int = 0
    user_messages_per_s: int = 0
    user_bytes_per_s: int = 0
    burst_s: int = 2
    mqtt_excess: str = WAIT
    flapping_connects: int = 0
    flapping_address_connects: int = 0
    flapping_window_s: int = 60
    flapping_hold_s: int = 300
    output_bytes_max: int = 65_536
    keys_max: int = 65_536

    def __post_init__(self) -> None:
        """Raises ConfigError for what makes no sense."""
        for field in fields(self):
            value = getattr(self, field.name)
            least = 1 if field.name in POSITIVE else 0
            if isinstance(value, int) and not least <= value <= LARGEST:
                raise ConfigError(f"limits.{field.name} is {value}: from {least} to {LARGEST}")
        if self.mqtt_excess not in EXCESSES:
            raise ConfigError(f"limits.mqtt_excess is {self.mqtt_excess!r}: one of {', '.join(EXCESSES)}")

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
