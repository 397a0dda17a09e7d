"""Observation (RFC 7641): who watches which path, and what each observer has not been told yet.

    GET Observe 0 --> registered --answer 2.05 with Observe--> notifying --message--> CON --ACK--> notifying
    notifying --Observe 1, RST, a CON never acknowledged--> gone

Every message on the path is a notification, all of them confirmable, one at a time to each peer, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from protocols.coap import blockwise, message, option, translate
from protocols.coap.blockwise import Pinned
from protocols.coap.config import CoapConfig
from protocols.coap.exchange import Remote
from protocols.coap.option import Options
from protocols.coap.translate import Representation

CHECK_NS: Final = 86_400_000_000_000
UNVERIFIED_EXPONENT: Final = 0
UNACCEPTABLE: Final = Representation(b"", option.ABSENT, 0, b"")
"""Stands in a backlog for the 4.06 that ends an observation."""


@final
class Observation:
    """One observer of one path: the ticket of its Watch.

    started       its 2.05 is out: what comes now are notifications
    format        Content-Format of the first value that declared one, ABSENT until then
    ending        what waits is the last that it will be told, an error
    refusal       which one: 4.06 for a value of another format, or why it may not hear more
    confirmed_ns  when it last acknowledged something, or registered
    """

    __slots__ = (
        "backlog", "backlog_bytes", "cancelled", "confirmed_ns", "ending", "format", "options", "path", "refusal", "registry",
        "remote", "started", "token",
    )  # fmt: skip

    def __init__(self, registry: Observations, remote: Remote, token: bytes, path: str, options: Options, now: int) -> None:
        self.registry = registry
        self.format = option.ABSENT
        self.ending = False
        self.refusal = message.NOT_ACCEPTABLE
        self.remote = remote
        self.token = token
        self.path = path
        self.options = options
        self.started = False
        self.cancelled = False
        self.confirmed_ns = now
        self.backlog: list[Representation] = []
        self.backlog_bytes = 0

    def agrees(self, value: Representation) -> bool:
        """False when `value` declares another format than the values before it did."""
        if value.format == option.ABSENT:
            return True
        if self.format == option.ABSENT:
            self.format = value.format
        return self.format == value.format

    def datagram(self, mid: int, now: int, /) -> bytes | None:
        """The next notification (section 4.2), in full or its first block (RFC 7959 section 2.6)."""
        if self.cancelled or not self.backlog:
            return None
        value = self.backlog.pop(0)
        self.backlog_bytes -= len(value.body)
        if value is UNACCEPTABLE:
            return message.encode(message.CON, self.refusal, mid, self.token, b"", b"")
        return self.registry.notification(self, value, mid, now)


@final
class Observations:
    """All observations of an endpoint. The sequence number is one for all: 24 bits, rising (section 4.4)."""

    __slots__ = ("by_remote", "config", "count", "lost", "pinned", "sequence", "wall_ms")

    def __init__(self, config: CoapConfig, pinned: Pinned, wall_ms: Callable[[], int]) -> None:
        self.config = config
        self.pinned = pinned
        self.wall_ms = wall_ms
        self.by_remote: dict[int, dict[bytes, Observation]] = {}
        self.count = 0
        self.lost = 0
        self.sequence = 0

    def find(self, remote: Remote, token: bytes) -> Observation | None:
        """The observation of this peer under this token."""
        return self.by_remote.get(remote.key, {}).get(token)

    def all_of(self, remote: Remote) -> list[Observation]:
        """All observations of this peer."""
        return list(self.by_remote.get(remote.key, {}).values())

    def add(self, remote: Remote, token: bytes, path: str, options: Options, now: int) -> Observation | None:
        """Register; None when the peer or the endpoint has as many as it may: the request is then answered as a plain GET."""
        if self.count >= self.config.observers_max or remote.observers >= self.config.observers_peer_max:
            return None
        observation = Observation(self, remote, token, path, options, now)
        self.by_remote.setdefault(remote.key, {})[token] = observation
        remote.observers += 1
        self.count += 1
        return observation

    def remove(self, observation: Observation) -> None:
        """Forget it; harmless when it has gone."""
        if observation.cancelled:
            return
        observation.cancelled = True
        observation.backlog.clear()
        remote = observation.remote
        of_remote = self.by_remote[remote.key]
        del of_remote[observation.token]
        if not of_remote:
            del self.by_remote[remote.key]
        remote.observers -= 1
        self.count -= 1

    def next_sequence(self) -> int:
        """The Observe value of the next answer or notification."""
        self.sequence = (self.sequence + 1) & 0xFFFFFF
        return self.sequence

    def queue(self, observation: Observation, value: Representation) -> None:
        """One more for this observer. One that is too far behind loses the oldest, counted.

        All notifications have the format of the first (section 4.2). A value of another declared format ends the observation:
        4.06 comes after what is still waiting, and nothing after that.
        """
        if observation.ending:
            return
        if not translate.accepts(observation.options, value) or not observation.agrees(value):
            observation.ending = True
            value = UNACCEPTABLE
        observation.backlog.append(value)
        observation.backlog_bytes += len(value.body)
        while len(observation.backlog) > 1 and (
            len(observation.backlog) > self.config.backlog_max or observation.backlog_bytes > self.config.backlog_bytes_max
        ):
            observation.backlog_bytes -= len(observation.backlog.pop(0).body)
            self.lost += 1

    def refuse(self, observation: Observation, code: int) -> None:
        """It may not hear more: an error response is all that it is told from now on (section 4.2)."""
        if not observation.ending:
            observation.ending = True
            observation.refusal = code
            observation.backlog = [UNACCEPTABLE]
            observation.backlog_bytes = 0

    def drop(self, observation: Observation, etag: bytes) -> None:
        """Take a value out of the backlog: the observer has just got it as the answer to its registration."""
        kept = [value for value in observation.backlog if value.etag != etag]
        observation.backlog_bytes -= sum(len(value.body) for value in observation.backlog if value.etag == etag)
        observation.backlog = kept

    def silent(self, since_ns: int, now: int) -> list[Observation]:
        """Observations that have confirmed nothing since then, each named once a day at most (RFC 7641 section 4.5).

        All of them are looked at in turn, so the caller asks rarely.
        """
        found: list[Observation] = []
        for of_remote in self.by_remote.values():
            for observation in of_remote.values():
                if observation.confirmed_ns <= since_ns:
                    observation.confirmed_ns = now
                    found.append(observation)
        return found

    def notification(self, observation: Observation, value: Representation, mid: int, now: int) -> bytes:
        """2.05 as a confirmable message. An address that has never acknowledged anything gets a block of 16 bytes at most."""
        exponent = blockwise.exponent_of(self.config.block_bytes)
        if observation.remote.verified_ns <= now and self.config.amplification:
            exponent = UNVERIFIED_EXPONENT
        if observation.options.block2 != option.ABSENT:
            exponent = min(exponent, observation.options.block2 & 7)
        pairs, payload = translate.content(value, self.next_sequence(), 0, exponent, self.wall_ms())
        if len(payload) < len(value.body):
            self.pinned.put((observation.remote.key, observation.path), value, len(value.body), now)
        return message.encode(message.CON, message.CONTENT, mid, observation.token, message.join(pairs), payload)
