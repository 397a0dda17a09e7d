"""A blocking client of the RocketMQ remoting protocol for connectors and tools: routes, bounds, pulls, sends.

Reads are retried for `retry_s` after a lost connection, a restart of the server or a busy reply. A send is not retried: after a
lost connection, the client cannot know whether the message was stored. The error says so. What access control or TLS refuses is
not retried, but for one case: a refused access key when its place has another one by now, as after a change of the password.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import orjson

from domain import limits
from domain.address import TEMPLATE_TOPIC
from domain.message import property as properties
from domain.message.crc32 import crc32
from gateway.client.answer import (
    PULL_STATUS,
    TOPIC_NOT_EXIST,
    ClientError,
    Edges,
    Epoch,
    GarbledError,
    PullReply,
    QueueRoute,
    SendResult,
    TopicRoute,
    UnknownTopicError,
    UnreachableError,
    bounds_from,
    checked,
    document,
    fields_of,
    integer,
    items,
    pulled,
    rejected,
)
from gateway.client.connections import ServerConnections
from gateway.client.follower import FollowerReader
from gateway.client.link import Link
from gateway.client.request import (
    EARLIEST,
    HELD_QUEUES_MAX,
    HOLD_QUEUES,
    MAX_OFFSET,
    MIN_OFFSET,
    NOT_SUPPORTED,
    PIPELINED_MAX,
    PULL,
    SEARCH,
    SEND,
    STORED_CODES,
    TOPIC_BOUNDS,
    TOPICS,
    pull_fields,
)
from gateway.client.retries import Retries
from gateway.client.routed_brokers import RoutedBrokers
from gateway.client.security import KeyPlace, Tls


class Client:
    """A client of the brokers that one name server knows. Not thread-safe.

    nameserver  host:port of the name server; several are separated by `;` or `,` and are tried in order
    timeout_s   time for the replies to one attempt, in seconds
    retry_s     how long reads are retried, in seconds
    tls         TLS with name servers and brokers; None: no TLS
    key         where the access key is that signs the requests; None: they are not signed
    followers   True: `scan` reads from replicas that follow, as far as these have the range

    Files and variables are read at each new connection, so a changed one applies from then on.
    Raises ClientError when no name server is given.
    """

    def __init__(
        self,
        nameserver: str = "127.0.0.1:9876",
        *,
        timeout_s: float = 10.0,
        retry_s: float = 30.0,
        tls: Tls | None = None,
        key: KeyPlace | None = None,
        followers: bool = False,
    ) -> None:
        self.nameserver = nameserver
        self._retries = Retries(retry_s, nameserver)
        self._key = key
        self._followers = followers
        self._connections = ServerConnections(timeout_s, tls, key)
        self._brokers = RoutedBrokers(nameserver, self._connections, self._retries, key)
        self._next_queue = 0

    def close(self) -> None:
        """Close all connections. The client can be used again and then opens new ones."""
        self._connections.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def topics(self) -> list[str]:
        """The names of all topics, sorted, system topics included. Raises ClientError."""

        def ask() -> list[str]:
            found = document(self._brokers.nameservers.ask(TOPICS, {}))
            return sorted(str(name) for name in items(found, "topicList"))

        return self._retries.run("the list of topics", ask)

    def route(self, topic: str) -> TopicRoute:
        """The route of `topic`, requested from the name server at each call. Raises UnknownTopicError."""
        return self._brokers.route(topic)

    def bounds(self, queues: Sequence[QueueRoute]) -> dict[QueueRoute, Edges]:
        """The ends of each queue; (0, 0) for an unused one. A queue that its broker says it does not have is left out.

        A broker that is no Headgate node cannot say that: there, a queue that does not exist is an unused one.
        """
        found: dict[QueueRoute, Edges] = {}
        for broker in dict.fromkeys(queue.broker for queue in queues):
            mine = [queue for queue in queues if queue.broker == broker]
            extended = self._retries.run("offsets", partial(self._extended_bounds, broker, mine))
            found |= self._public_bounds(mine) if extended is None else extended
        return {queue: found[queue] for queue in queues if queue in found}

    def _extended_bounds(self, broker: str, queues: Sequence[QueueRoute]) -> dict[QueueRoute, Edges] | None:
        """The ends of all queues of these topics by request code 30000; None when the broker does not know the code."""
        topics = list(dict.fromkeys(queue.topic for queue in queues))
        found: dict[QueueRoute, Edges] = {}
        for at in range(0, len(topics), PIPELINED_MAX):
            some = topics[at : at + PIPELINED_MAX]
            link = self._brokers.link(queues[0])
            if link.is_plain:
                return None
            requests = [(TOPIC_BOUNDS, {"topic": topic, "bname": broker}, b"") for topic in some]
            for topic, frame in zip(some, self._brokers.ask(queues[0], requests), strict=True):
                if frame.code == NOT_SUPPORTED:
                    link.is_plain = True
                    return None
                if frame.code != TOPIC_NOT_EXIST:
                    found |= bounds_from(broker, topic, document(checked(frame, f"bounds of {topic} at {broker}", self._key)))
        return found

    def _public_bounds(self, queues: Sequence[QueueRoute]) -> dict[QueueRoute, Edges]:
        """The ends of queues by RocketMQ's own requests."""
        first = self._brokers.offsets(queues, MIN_OFFSET, {})
        after = self._brokers.offsets(queues, MAX_OFFSET, {})
        times = self._brokers.offsets(queues, EARLIEST, {}, "timestamp")
        found = {}
        for queue in queues:
            low = max(first[queue], 0)
            found[queue] = Edges(low, max(after[queue], low), (low, max(times[queue], -1)))
        return found

    def hold(self, name: str, position: Mapping[QueueRoute, int], hold_ms: int) -> None:
        """Ask the brokers to keep messages from retention, from these offsets on; best effort, one attempt.

        name     the reader's name for its hold, which replaces its last one on the same queues
        hold_ms  how long; 0 ends the hold
        """
        topics: dict[QueueRoute, list[tuple[int, int]]] = {}
        for queue, offset in position.items():
            topics.setdefault(queue._replace(queue_id=0), []).append((queue.queue_id, offset))
        requests: dict[str, list[tuple[int, dict[str, str], bytes]]] = {}
        routes: dict[str, QueueRoute] = {}
        for one, offsets in topics.items():
            routes[one.broker] = one
            for at in range(0, len(offsets), HELD_QUEUES_MAX):
                fields = {"hold": f"{name}.{at}", "topic": one.topic, "holdMs": str(hold_ms), "bname": one.broker}
                body = orjson.dumps(offsets[at : at + HELD_QUEUES_MAX])
                requests.setdefault(one.broker, []).append((HOLD_QUEUES, fields, body))
        for broker, mine in requests.items():
            with suppress(OSError, ClientError):
                for at in range(0, len(mine), PIPELINED_MAX):
                    if not self._brokers.link(routes[broker]).is_plain:
                        self._brokers.ask(routes[broker], mine[at : at + PIPELINED_MAX])

    def search(self, queues: Sequence[QueueRoute], timestamp_ms: int) -> dict[QueueRoute, int]:
        """The first offset of each queue stored at or after `timestamp_ms`; without one, the offset of the next message."""
        found = self._brokers.offsets(queues, SEARCH, {"timestamp": str(timestamp_ms), "boundaryType": "LOWER"})
        beyond = [queue for queue, offset in found.items() if offset < 0]
        return found | {queue: edges.after for queue, edges in self.bounds(beyond).items()}

    def scan(
        self, queue: QueueRoute, start: int, end: int, max_bytes: int = limits.PULL_BYTES_MAX, epoch: Epoch = -1
    ) -> Iterator[PullReply]:
        """Pull the offsets [start, end) of `queue`. Yields each reply; ends after one that does not lead on.

        Records keep their HG_ properties. `epoch`: that of `bounds`; a Headgate node replies REMADE when the topic has another
        one by now.

        The next pull is sent before a reply is yielded, so that the server reads while the caller works. A pull asks for at
        most `max_bytes` bytes of records.
        """
        offset = start
        version = epoch if isinstance(epoch, int) else -1
        follower = self._follower(queue, start)
        pending: tuple[Link, int] | None = None
        while offset < end:
            fields = pull_fields(queue, offset, min(end - offset, limits.BATCH_MESSAGES_MAX), max_bytes, version)
            pull = None if follower is None else follower.pull(fields)
            if pull is None:
                if follower is not None and follower.failed:
                    self._brokers.routes.pop(queue.topic, None)
                follower = None
                pull = self._pull(queue, fields, pending)
            pending = None
            leads_on = pull.next_offset > offset
            if pull.status not in ("FOUND", "NO_MATCH") or (pull.status == "NO_MATCH" and not leads_on):
                yield pull
                return
            if not leads_on:
                raise GarbledError(
                    f"reading {queue.topic} queue {queue.queue_id}: the answer at offset {offset} does not lead on"
                )
            offset = pull.next_offset
            if offset < end:
                limit = min(end - offset, limits.BATCH_MESSAGES_MAX)
                fields = pull_fields(queue, offset, limit, max_bytes, version)
                if follower is None:
                    pending = self._pull_ahead(queue, fields)
                else:
                    follower.ahead(fields)
            yield pull

    def send(
        self,
        topic: str,
        body: bytes,
        *,
        tag: str = "",
        keys: Iterable[str] = (),
        message_group: str = "",
        user: Mapping[str, str] | None = None,
        queue_id: int = -1,
    ) -> SendResult:
        """Send one message. It is stored when this returns.

        `queue_id` -1: the queue of `message_group`, or without one each queue in turn. `user`: user properties.
        Raises UnknownTopicError, RejectedError, and UnreachableError (it is not known whether the message is stored).
        """
        pairs = {properties.TAGS: tag, properties.KEYS: " ".join(keys), properties.SHARDING_KEY: message_group, **(user or {})}
        route = self._brokers.routes.get(topic) or self._route_to_send(topic)
        if not route.queues:  # a broker whose slaves alone are registered: its next master is asked for
            self._brokers.routes.pop(topic, None)
            raise UnreachableError(f"nameserver {self.nameserver} knows no broker that takes messages of {topic} now")
        queue = self._choose_queue(route, message_group, queue_id)
        fields = {
            "a": "headgate", "b": topic, "c": TEMPLATE_TOPIC, "d": "8", "e": str(queue.queue_id), "f": "0",
            "g": str(time.time_ns() // 1_000_000), "h": "0", "j": "0", "k": "false", "m": "false", "n": queue.broker,
            "i": properties.encode((key, value) for key, value in pairs.items() if value).decode(),
        }  # fmt: skip
        address = route.addresses[queue.broker]
        try:
            [frame] = self._connections.ask(address, [(SEND, fields, body)])
        except OSError as error:
            raise UnreachableError(
                f"sending to {topic}: broker {address} did not answer ({error}); the message may or may not have been stored"
            ) from error
        if frame.code not in STORED_CODES:
            raise rejected(frame, f"sending to {topic} at {address}", self._key)
        stored = QueueRoute(queue.broker, topic, integer(frame, "queueId"))
        return SendResult(
            stored, integer(frame, "queueOffset"), fields_of(frame).get("transactionId") or fields_of(frame)["msgId"]
        )

    def _route_to_send(self, topic: str) -> TopicRoute:
        """The route of `topic`; for an unknown topic that of the template topic: its broker may create topics."""
        try:
            return self.route(topic)
        except UnknownTopicError:
            template = self.route(TEMPLATE_TOPIC)
            return TopicRoute(
                [QueueRoute(queue.broker, topic, queue.queue_id) for queue in template.queues], template.addresses
            )

    def _choose_queue(self, route: TopicRoute, message_group: str, queue_id: int) -> QueueRoute:
        if queue_id >= 0:
            for queue in route.queues:
                if queue.queue_id == queue_id:
                    return queue
            raise ClientError(f"topic {route.queues[0].topic} has no queue {queue_id}")
        if message_group:
            return route.queues[crc32(message_group.encode()) % len(route.queues)]
        self._next_queue += 1
        return route.queues[self._next_queue % len(route.queues)]

    def _pull(self, queue: QueueRoute, fields: Mapping[str, str], pending: tuple[Link, int] | None) -> PullReply:
        if pending is not None:
            link, opaque = pending
            with suppress(OSError):
                frame = link.take([opaque])[0]
                if frame.code in PULL_STATUS:
                    return pulled(frame)

        def ask() -> PullReply:
            [frame] = self._brokers.ask(queue, [(PULL, fields, b"")])
            if frame.code == TOPIC_NOT_EXIST:
                return PullReply("REMADE", b"", -1, -1, -1)
            if frame.code not in PULL_STATUS:
                raise rejected(frame, f"reading {queue.topic} queue {queue.queue_id} at {queue.broker}", self._key)
            return pulled(frame)

        return self._retries.run(f"reading {queue.topic}", ask)

    def _pull_ahead(self, queue: QueueRoute, fields: Mapping[str, str]) -> tuple[Link, int] | None:
        """Send a pull without waiting for the reply; None when the connection is broken: `_pull` then opens a new one."""
        try:
            link = self._brokers.link(queue)
            return link, link.post([(PULL, fields, b"")])[0]
        except OSError:
            return None

    def _follower(self, queue: QueueRoute, start: int) -> FollowerReader | None:
        """A replica that follows, to read a range from: each has its share of ranges. None: none is known or wanted."""
        if not self._followers:
            return None
        route = self._brokers.known(queue.topic)
        known = route.followers.get(queue.broker, ())
        return FollowerReader(known[(queue.queue_id + start) % len(known)], self._connections.link) if known else None
