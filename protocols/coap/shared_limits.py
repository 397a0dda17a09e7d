"""State of peers that a node keeps for CoAP, with limits common to UDP, DTLS, TCP, TLS and WebSockets."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeVar, final

from protocols.coap.blockwise.blockwise import Assemblies, Pinned
from protocols.coap.exchange.dedup import EXCHANGE_LIFETIME_S, NON_LIFETIME_S, RecentRequests
from protocols.coap.settings import CoapSettings
from protocols.setting import Setting

NON_SHARE: Final = 8
"""Divisor of the duplicate table: 1/8 is for non-confirmable requests, whose responses are not kept."""
COMPARED: Final = 16
"""Feeds of which the largest loses values when all feeds together have too many bytes."""
VALUE_BYTES: Final = 256
"""Memory of a value besides its body."""
PROTOCOL: Final = "coap"


class HeldFeed(Protocol):
    """Properties of a feed (protocols/coap/observe/observations.py) that an audience reads."""

    @property
    def bytes(self) -> int:
        """Memory of its values."""

    @property
    def member(self) -> object | None:
        """The member of a consumer group that observes it; None: a feed without a member."""

    @property
    def registry(self) -> object:
        """The observations that it belongs to."""


Feed = TypeVar("Feed", bound=HeldFeed)


@final
class Audience(Generic[Feed]):
    """The observers of all transports, and the values that wait for them.

    networks   network -> number of its observations
    bytes      memory of the values of all feeds
    behind     feeds with waiting values; the first have waited longest, or were compared longest ago
    """

    def __init__(self) -> None:
        self.count = 0
        self.networks: dict[int, int] = {}
        self.bytes = 0
        self.behind: dict[Feed, None] = {}

    def enter(self, network: int) -> None:
        """Count one more observation of a network."""
        self.count += 1
        self.networks[network] = self.networks.get(network, 0) + 1

    def leave(self, network: int) -> None:
        """Count one observation of a network less."""
        self.count -= 1
        left = self.networks[network] - 1
        if left:
            self.networks[network] = left
        else:
            del self.networks[network]

    def largest(self, asker: object, newest: Feed) -> Feed:
        """Largest of the first COMPARED feeds of `behind`, which then move to its end.

        Feeds of members of a group count only if their registry is `asker`: another registry cannot release the lease.
        `newest`: the feed of `asker` with the newest value, returned when no feed counts.
        """
        compared = list(islice(self.behind, COMPARED))
        for feed in compared:
            del self.behind[feed]
            self.behind[feed] = None
        ours = [feed for feed in compared if feed.member is None or feed.registry is asker]
        return max(ours, key=lambda feed: feed.bytes, default=newest)


@final
class SharedLimits:
    """The shared state of all CoAP adapters of one node.

    pinned       values that peers read block by block
    audience     observers, and the values that wait for them
    """

    def __init__(self, config: CoapSettings) -> None:
        of_non = config.answers_bytes_max // NON_SHARE
        self.recent_con = RecentRequests(EXCHANGE_LIFETIME_S, config.answers_bytes_max - of_non)
        self.recent_non = RecentRequests(NON_LIFETIME_S, of_non)
        self.assemblies = Assemblies(config.block1_peer_bytes_max, config.block1_total_bytes_max)
        self.pinned = Pinned(config.pinned_bytes_max)
        self.audience: Audience[Any] = Audience()

    def expire(self, now: int) -> bool:
        """Remove old entries. True: more are left in the duplicate tables."""
        more = self.recent_con.expire(now)
        more = self.recent_non.expire(now) or more
        self.assemblies.expire(now)
        self.pinned.expire(now)
        return more


def shared_limits_of(setting: Setting, config: CoapSettings) -> SharedLimits:
    """Shared state of the node with this setting: created for the first adapter, and reused by the others."""
    found = setting.kept.get(PROTOCOL)
    if not isinstance(found, SharedLimits):
        found = setting.kept[PROTOCOL] = SharedLimits(config)
    return found
