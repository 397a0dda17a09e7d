"""Brokers of topics by their routes, for the blocking client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gateway.client.answer import (
    TOPIC_NOT_EXIST,
    QueueRoute,
    TopicRoute,
    UnknownTopicError,
    UnreachableError,
    checked,
    document,
    integer,
    route_from,
)
from gateway.client.connections import ServerConnections
from gateway.client.link import Link, Request
from gateway.client.nameservers import NameServers
from gateway.client.request import PIPELINED_MAX, ROUTE
from gateway.client.retries import Retries
from gateway.client.security import KeyPlace
from protocols.remoting.wire.frame import Frame


class RoutedBrokers:
    """Requests to the brokers that have the queues of topics.

    routes   the last route of each topic
    """

    def __init__(self, nameserver: str, connections: ServerConnections, retries: Retries, key: KeyPlace | None) -> None:
        self.nameserver = nameserver
        self.nameservers = NameServers(nameserver, connections)
        self.routes: dict[str, TopicRoute] = {}
        self._connections = connections
        self._retries = retries
        self._key = key

    def route(self, topic: str) -> TopicRoute:
        """The route of `topic`, requested from the name server at each call. Raises UnknownTopicError."""

        def ask() -> TopicRoute:
            frame = self.nameservers.ask(ROUTE, {"topic": topic, "acceptStandardJsonOnly": "true"})
            if frame.code == TOPIC_NOT_EXIST:
                raise UnknownTopicError(topic, self.nameserver, frame.remark)
            return route_from(topic, document(frame))

        self.routes[topic] = self._retries.run(f"the route of {topic}", ask)
        return self.routes[topic]

    def known(self, topic: str) -> TopicRoute:
        """The last route of a topic, requested if there is none."""
        return self.routes.get(topic) or self.route(topic)

    def _address(self, queue: QueueRoute) -> str:
        route = self.known(queue.topic)
        address = route.addresses.get(queue.broker)
        if address is None:
            self.routes.pop(queue.topic, None)  # it may have one the next time
            raise UnreachableError(f"nameserver {self.nameserver} knows no address of broker {queue.broker}")
        return address

    def link(self, queue: QueueRoute) -> Link:
        """A connection to the broker of a queue."""
        return self._connections.link(self._address(queue))

    def ask(self, queue: QueueRoute, requests: Sequence[Request]) -> list[Frame]:
        """The replies of the broker of a queue. Its route is requested again after a failure."""
        address = self._address(queue)
        try:
            return self._connections.ask(address, requests)
        except OSError:
            self.routes.pop(queue.topic, None)
            raise

    def offsets(
        self, queues: Sequence[QueueRoute], code: int, more: Mapping[str, str], field: str = "offset"
    ) -> dict[QueueRoute, int]:
        """One offset of each queue by request code `code`; up to PIPELINED_MAX requests to a broker in one write."""
        out: dict[QueueRoute, int] = {}
        for broker in dict.fromkeys(queue.broker for queue in queues):
            mine = [queue for queue in queues if queue.broker == broker]
            for at in range(0, len(mine), PIPELINED_MAX):
                some = mine[at : at + PIPELINED_MAX]

                def ask(some: list[QueueRoute] = some) -> list[int]:
                    requests = [
                        (code, {"topic": q.topic, "queueId": str(q.queue_id), "bname": q.broker, **more}, b"") for q in some
                    ]
                    frames = self.ask(some[0], requests)
                    return [
                        integer(checked(frame, f"offset of {q.topic} queue {q.queue_id} at {q.broker}", self._key), field)
                        for q, frame in zip(some, frames, strict=True)
                    ]

                out.update(zip(some, self._retries.run("offsets", ask), strict=True))
        return out
