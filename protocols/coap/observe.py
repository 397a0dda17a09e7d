"""Observation (RFC 7641): the observers of each path, and the notifications that wait for them.

    GET Observe 0 --> registered --answer 2.05 with Observe--> notifying --message--> CON --ACK--> notifying
    notifying --Observe 1, RST, a CON never acknowledged--> gone

Every message on the path becomes a notification. Notifications are confirmable and sent in order, one at a time to each peer.
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
"""In a backlog: the error response that ends the observation (4.06, or `Observation.refusal`)."""


@final
class Observation:
    """One observer of one path. It is the ticket of its Watch.

    registry       the observations of the endpoint
    remote         the observer's address
    token          token of the registration; every notification carries it
    path           the MQTT topic observed
    options        options of the registration: Accept and Block2 apply to notifications
    started        the 2.05 to the registration was sent: further messages become notifications
    cancelled      the observation was removed
    format         Content-Format of the first value that declared one; ABSENT before
    ending         an error response is at the end of the backlog; nothing is queued after it
    refusal        response code of that error: 4.06 for a value of another format, or the code of the gateway's refusal
    confirmed_ns   monotonic ns of its last acknowledgement, or of the registration
    backlog        values that wait to be sent, in order
    backlog_bytes  bytes of the bodies in the backlog
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
        """False when `value` declares another Content-Format than earlier values did (section 4.2). Keeps the first one."""
        if value.format == option.ABSENT:
            return True
        if self.format == option.ABSENT:
            self.format = value.format
        return self.format == value.format

    def datagram(self, mid: int, now: int, /) -> bytes | None:
        """Encode the next notification (section 4.2), or its first block (RFC 7959 section 2.6); None when none waits."""
        if self.cancelled or not self.backlog:
            return None
        value = self.backlog.pop(0)
        self.backlog_bytes -= len(value.body)
        if value is UNACCEPTABLE:
            return message.encode(message.CON, self.refusal, mid, self.token, b"", b"")
        return self.registry.notification(self, value, mid, now)


@final
class Observations:
    """All observations of an endpoint. They share one rising sequence number of 24 bits (section 4.4)."""

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
        """The observation of this peer with this token, or None."""
        return self.by_remote.get(remote.key, {}).get(token)

    def all_of(self, remote: Remote) -> list[Observation]:
        """All observations of this peer."""
        return list(self.by_remote.get(remote.key, {}).values())

    def add(self, remote: Remote, token: bytes, path: str, options: Options, now: int) -> Observation | None:
        """Add an observation; None at `observers_peer_max` or `observers_max`: the GET is answered as one without Observe."""
        if self.count >= self.config.observers_max or remote.observers >= self.config.observers_peer_max:
            return None
        observation = Observation(self, remote, token, path, options, now)
        self.by_remote.setdefault(remote.key, {})[token] = observation
        remote.observers += 1
        self.count += 1
        return observation

    def remove(self, observation: Observation) -> None:
        """Remove an observation. Does nothing when it was removed before."""
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
        """The Observe value of the next response or notification."""
        self.sequence = (self.sequence + 1) & 0xFFFFFF
        return self.sequence

    def queue(self, observation: Observation, value: Representation) -> None:
        """Append a value to the backlog. Above `backlog_max` or `backlog_bytes_max` the oldest are dropped and counted.

        All notifications have the format of the first (section 4.2). A value of another declared format ends the observation:
        4.06 is sent after the waiting notifications.
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
        """End the observation with an error response (section 4.2), which replaces the waiting notifications."""
        if not observation.ending:
            observation.ending = True
            observation.refusal = code
            observation.backlog = [UNACCEPTABLE]
            observation.backlog_bytes = 0

    def drop(self, observation: Observation, etag: bytes) -> None:
        """Remove the value with this ETag from the backlog: the response to the registration carries it."""
        kept = [value for value in observation.backlog if value.etag != etag]
        observation.backlog_bytes -= sum(len(value.body) for value in observation.backlog if value.etag == etag)
        observation.backlog = kept

    def silent(self, since_ns: int, now: int) -> list[Observation]:
        """Observations without an acknowledgement since `since_ns`, each at most once a day (RFC 7641 section 4.5).

        Takes time linear in the number of observations, so the endpoint calls it rarely.
        """
        found: list[Observation] = []
        for of_remote in self.by_remote.values():
            for observation in of_remote.values():
                if observation.confirmed_ns <= since_ns:
                    observation.confirmed_ns = now
                    found.append(observation)
        return found

    def notification(self, observation: Observation, value: Representation, mid: int, now: int) -> bytes:
        """Encode a 2.05 as a confirmable message. An unverified address gets a block of at most 16 bytes (section 7)."""
        exponent = blockwise.exponent_of(self.config.block_bytes)
        if observation.remote.verified_ns <= now and self.config.amplification:
            exponent = UNVERIFIED_EXPONENT
        if observation.options.block2 != option.ABSENT:
            exponent = min(exponent, observation.options.block2 & 7)
        pairs, payload = translate.content(value, self.next_sequence(), 0, exponent, self.wall_ms())
        if len(payload) < len(value.body):
            self.pinned.put((observation.remote.key, observation.path), value, len(value.body), now)
        return message.encode(message.CON, message.CONTENT, mid, observation.token, message.join(pairs), payload)
