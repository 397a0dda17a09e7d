"""Observation (RFC 7641): the observers of each path, and the notifications that wait for them.

    GET Observe 0 --> registered --answer 2.05 with Observe--> notifying --message--> CON --ACK--> notifying
    notifying --Observe 1, RST, a CON never acknowledged--> ended

Every message on the path becomes a notification. Notifications are confirmable and sent in order, one at a time to each peer.
The values of a path are kept once for all its observers, until all of them have acknowledged them. Above a limit the oldest
values are dropped: a slow observer skips to newer ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from domain.filter.filter import Filter
from protocols.coap.blockwise import blockwise
from protocols.coap.blockwise.blockwise import Pinned
from protocols.coap.exchange.exchange import Exchange, Remote
from protocols.coap.message import message, option
from protocols.coap.observe.group_observer import Member
from protocols.coap.observe.observer_checks import CHECK_NS, Checks
from protocols.coap.resources import translate
from protocols.coap.resources.translate import Representation
from protocols.coap.settings import CoapSettings
from protocols.coap.shared_limits import VALUE_BYTES, Audience

UNVERIFIED_EXPONENT: Final = 0


@final
class Feed:
    """One path with its observers, for one principal, and the ticket of its Watch.

    key          (path, name of the principal): the observers of a feed have the same rights
    of_data      True: feed of a topic's data; it ends with the data
    member       the member of a consumer group that is its only observer; None: messages on the path are watched
    selects      True: feed of a FETCH; its notifications carry the path of each message
    filter       filter of the messages to send; None: all
    joining      the first registration of a FETCH, which is answered when the watch has started; None: none waits
    idle         observations that have acknowledged every value
    values       values that some observer still needs, in order
    first        number of `values[0]`, counted from the start of the feed
    bytes        memory of `values`
    """

    __slots__ = (
        "bytes", "filter", "first", "idle", "joining", "key", "member", "observers", "of_data", "registry", "selects", "values",
    )  # fmt: skip

    def __init__(self, registry: Observations, key: tuple[str, str]) -> None:
        self.registry = registry
        self.key = key
        self.of_data = False
        self.member: Member | None = None
        self.selects = False
        self.filter: Filter | None = None
        self.joining: Exchange | None = None
        self.observers: dict[Observation, None] = {}
        self.idle: dict[Observation, None] = {}
        self.values: deque[Representation] = deque()
        self.first = 0
        self.bytes = 0

    @property
    def end(self) -> int:
        """Number of the next value."""
        return self.first + len(self.values)


@final
class Observation:
    """One observer of one path.

    token          token of the registration, repeated in every notification
    name           unique among the observations of the remote (`Exchange.observer`)
    seal           protection of its notifications; None: not protected
    owner          owner of its pinned values (`Exchange.owner`)
    options        options of the registration: Accept and Block2 apply to notifications
    next           number in the feed of the next value to send
    started        the 2.05 to the registration was sent: further messages become notifications
    proven         the observer has acknowledged a message: its address is verified for the life of the observation
    format         Content-Format of the first value that declared one; ABSENT before
    refusal        response code of the error that ends the observation: 4.06 for a value of another format, or the code of the
                   gateway's refusal; 0: none
    check          a value for this observer alone, as a liveness check; None: none waits
    confirmed_ns   monotonic ns of its last acknowledgement, or of the registration
    check_ns       time without an acknowledgement after which a liveness check is due
    check_serial   its entry in `Observations.checks`
    topic_id       id of the subscribed topic of the publish-subscribe draft; "": none
    """

    __slots__ = (
        "cancelled", "check", "check_ns", "check_serial", "confirmed_ns", "feed", "format", "name", "next", "options",
        "owner", "proof", "proven", "refusal", "refused", "registry", "remote", "seal", "started", "token", "topic_id",
    )  # fmt: skip

    def __init__(self, registry: Observations, feed: Feed, exchange: Exchange, now: int) -> None:
        self.registry = registry
        self.feed = feed
        self.remote = exchange.remote
        self.token = exchange.token
        self.name = exchange.observer
        self.seal = exchange.seal
        self.proof = exchange.proof
        self.owner = exchange.owner
        self.options = exchange.options
        self.next = feed.end
        self.started = False
        self.cancelled = False
        self.proven = False
        self.format = option.ABSENT
        self.refusal = 0
        self.refused = False
        self.check: Representation | None = None
        self.confirmed_ns = now
        self.check_ns = CHECK_NS
        self.check_serial = 0
        self.topic_id = ""

    @property
    def waiting(self) -> bool:
        """True when a notification or an error waits to be sent."""
        if self.refusal:
            return not self.refused
        return self.check is not None or self.next < self.feed.end

    def agrees(self, value: Representation) -> bool:
        """False when `value` declares another Content-Format than earlier values (section 4.2). Stores the first one."""
        if value.format == option.ABSENT:
            return True
        if self.format == option.ABSENT:
            self.format = value.format
        return self.format == value.format

    def datagram(self, mid: int, now: int, /) -> bytes | None:
        """Encode the next notification as a confirmable message; None when none waits or none can be protected now."""
        found = self.notification(now)
        if found is None:
            self.registry.settled(self)
            return None
        code, options, payload = found
        return message.encode(message.CON, code, mid, self.token, options, payload)

    def notification(self, now: int) -> tuple[int, bytes, bytes] | None:
        """Code, options and payload of the next notification (section 4.2), or of its first block (RFC 7959 section 2.6).

        None when none waits, or when no sequence number is left to protect it: the value is then lost.
        """
        if self.cancelled or self.refused:
            return None
        value = None if self.refusal else self._take()
        if value is not None and not (translate.accepts(self.options, value) and self.agrees(value)):
            self.refusal = message.NOT_ACCEPTABLE
        if self.refusal:
            self.refused = True
            found = self.refusal, b"", b""
        elif value is not None:
            found = self.registry.notification(self, value, now)
        else:
            return None
        if self.seal is None:
            return found
        sealed = self.seal.notification(*found)
        if sealed is None:
            self.registry.lost += 1
        return sealed

    def _take(self) -> Representation | None:
        value, self.check = self.check, None
        if value is not None:
            return value
        feed = self.feed
        if self.next < feed.first:
            self.registry.lost += feed.first - self.next
            self.next = feed.first
        if self.next >= feed.end:
            return None
        self.next += 1
        return feed.values[self.next - 1 - feed.first]


@final
class Observations:
    """All observations of an endpoint. They share one rising sequence number of 24 bits (section 4.4).

    by_remote    key of a remote -> name of an observation -> observation
    feeds        the observed paths, by key
    ready        observations with a new value to send
    displaced    feeds of members whose message was dropped for the byte limit of all feeds
    lost         values that observers have not got
    """

    def __init__(self, config: CoapSettings, pinned: Pinned, wall_ms: Callable[[], int], audience: Audience[Feed]) -> None:
        self.audience = audience
        self.config = config
        self.pinned = pinned
        self.wall_ms = wall_ms
        self.by_remote: dict[int, dict[bytes, Observation]] = {}
        self.feeds: dict[tuple[str, str], Feed] = {}
        self.ready: deque[Observation] = deque()
        self.displaced: list[Feed] = []
        self.checks = Checks()
        self.count = 0
        self.lost = 0
        self.sequence = 0

    def find(self, exchange: Exchange) -> Observation | None:
        """Observation of the requesting peer with the token of the request, or None."""
        return self.by_remote.get(exchange.remote.key, {}).get(exchange.observer)

    def all_of(self, remote: Remote) -> list[Observation]:
        """All observations of this peer."""
        return list(self.by_remote.get(remote.key, {}).values())

    def add(self, exchange: Exchange, key: tuple[str, str], now: int) -> Observation | None:
        """Add an observation; None at a limit: the GET is then answered as one without Observe.

        The limits are `observers_max` in total, `observers_network_max`, `observers_peer_max`, and `observers_path_max` of a
        peer on one path; the first two count all transports. The first observation of a feed needs a Watch.
        """
        config = self.config
        remote = exchange.remote
        feed = self.feeds.get(key)
        in_network = self.audience.networks.get(remote.network, 0)
        if self.audience.count >= config.observers_max or in_network >= config.observers_network_max:
            return None
        if remote.observers >= config.observers_peer_max:
            return None
        mine = self.by_remote.get(remote.key, {})
        if len(mine) >= config.observers_path_max:
            same = sum(1 for other in mine.values() if other.feed is feed)
            if same >= config.observers_path_max:
                return None
        if feed is None:
            feed = self.feeds[key] = Feed(self, key)
        observation = Observation(self, feed, exchange, now)
        feed.observers[observation] = None
        self.by_remote.setdefault(remote.key, mine)[observation.name] = observation
        self.audience.enter(remote.network)
        self.checks.add(observation)
        remote.observers += 1
        self.count += 1
        return observation

    def remove(self, observation: Observation) -> Feed | None:
        """Remove an observation, unless it was removed before. Returns its feed if that has no other observers."""
        if observation.cancelled:
            return None
        observation.cancelled = True
        observation.check = None
        remote, feed = observation.remote, observation.feed
        of_remote = self.by_remote[remote.key]
        del of_remote[observation.name]
        if not of_remote:
            del self.by_remote[remote.key]
        self.audience.leave(remote.network)
        self.checks.remove(observation)
        remote.observers -= 1
        self.count -= 1
        del feed.observers[observation]
        feed.idle.pop(observation, None)
        self._prune(feed)
        if feed.observers:
            return None
        del self.feeds[feed.key]
        return feed

    def next_sequence(self) -> int:
        """Observe value of the next response or notification."""
        self.sequence = (self.sequence + 1) & 0xFFFFFF
        return self.sequence

    def queue(self, feed: Feed, value: Representation) -> None:
        """Append a value to a feed, for all its observers. Above a limit the oldest values are dropped.

        The limits are `backlog_max` and `backlog_bytes_max` of a feed, and `backlogs_bytes_max` of all feeds of all transports.
        """
        if not feed.observers:
            return
        feed.values.append(value)
        feed.bytes += len(value.body) + VALUE_BYTES
        audience = self.audience
        audience.bytes += len(value.body) + VALUE_BYTES
        audience.behind[feed] = None
        if feed.idle:
            self.ready.extend(feed.idle)
            feed.idle.clear()
        config = self.config
        while len(feed.values) > 1 and (len(feed.values) > config.backlog_max or feed.bytes > config.backlog_bytes_max):
            self._drop_oldest(feed)
        while audience.bytes > config.backlogs_bytes_max:
            largest = audience.largest(self, feed)
            if not largest.values:
                break  # only members of groups at other endpoints have waiting values
            self._drop_oldest(largest)

    def started(self, observation: Observation, value: Representation | None) -> None:
        """Start notifications after the response to the registration, which carried `value` or none: newer values follow."""
        feed = observation.feed
        observation.started = True
        if value is not None:
            observation.agrees(value)
            for at in range(len(feed.values) - 1, -1, -1):
                if feed.first + at >= observation.next and feed.values[at].etag == value.etag:
                    observation.next = feed.first + at + 1
                    break
        self.settled(observation)

    def settled(self, observation: Observation) -> None:
        """Continue with the next value, since no notification of the observer waits for its ACK."""
        if observation.cancelled:
            return
        if observation.waiting:
            self.ready.append(observation)
        elif not observation.refusal:
            observation.feed.idle[observation] = None
            self._prune(observation.feed)

    def ask(self, observation: Observation, value: Representation) -> None:
        """Send a value to one observer alone, as a liveness check."""
        observation.check = value
        self._rouse(observation)

    def refuse(self, observation: Observation, code: int) -> None:
        """End the observation with an error response (section 4.2), instead of the waiting notifications."""
        if not observation.refusal:
            observation.refusal = code
            self._rouse(observation)

    def check_every(self, observation: Observation, period_ns: int) -> None:
        """Set the time without an acknowledgement after which a liveness check of the observer is due."""
        if not observation.cancelled and observation.check_ns != period_ns:
            observation.check_ns = period_ns
            self.checks.add(observation)

    def silent(self, until_ns: int, now: int) -> list[Observation]:
        """Observations whose liveness check is due before `until_ns`; each is returned once per period."""
        return [observer for observer in self.checks.due(until_ns, now) if isinstance(observer, Observation)]

    def notification(self, observation: Observation, value: Representation, now: int) -> tuple[int, bytes, bytes]:
        """Code, options and payload of a notification. An unverified address gets a block of at most 16 bytes (section 7)."""
        exponent = blockwise.exponent_of(self.config.block_bytes)
        if self.config.amplification and not observation.proven and observation.remote.verified_ns <= now:
            exponent = UNVERIFIED_EXPONENT
        if observation.options.block2 != option.ABSENT:
            exponent = min(exponent, observation.options.block2 & 7)
        whole = observation.remote.whole_bytes if observation.options.block2 == option.ABSENT else 0
        if whole and observation.remote.bert:
            exponent = blockwise.BERT_EXPONENT
        pairs, payload = translate.content(value, self.next_sequence(), 0, exponent, self.wall_ms(), whole)
        if len(payload) < len(value.body):
            self.pinned.put((observation.owner, observation.feed.key[0]), value, len(value.body), now)
        return message.CONTENT, message.join(pairs), payload

    def postpone(self, observation: Observation) -> None:
        """Wait for the next value of the feed, since nothing can be sent to this peer now."""
        if not observation.cancelled:
            observation.feed.idle[observation] = None

    def _rouse(self, observation: Observation) -> None:
        if observation in observation.feed.idle:
            del observation.feed.idle[observation]
            self.ready.append(observation)

    def _prune(self, feed: Feed) -> None:
        """Drop the values of a feed if all its observers have got them."""
        if feed.values and len(feed.idle) == len(feed.observers):
            feed.first = feed.end
            self.audience.bytes -= feed.bytes
            feed.bytes = 0
            feed.values.clear()
            del self.audience.behind[feed]

    def _drop_oldest(self, feed: Feed) -> None:
        if feed.member is not None and any(observation.next <= feed.first for observation in feed.observers):
            self.displaced.append(feed)
        size = len(feed.values.popleft().body) + VALUE_BYTES
        feed.first += 1
        feed.bytes -= size
        self.audience.bytes -= size
        if not feed.values:
            del self.audience.behind[feed]
