"""The queues of a query and their ends, from the cluster. Routes are cached for a second; the ends of queues are not."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, TypeVar
from uuid import uuid4

from domain.address import is_derived_topic, is_system_topic
from gateway.client.answer import AccessError, ClientError, Edges, QueueRoute, UnknownTopicError, UnreachableError, is_remade
from gateway.connectors.spark.failure import (
    DataLossError,
    MissingError,
    NoSuchTopicError,
    OffsetAheadError,
    OffsetExpiredError,
    SourceError,
    TopicRemadeError,
    place,
)
from gateway.connectors.spark.offset import Position, resolve
from gateway.connectors.spark.option import EARLIEST, LATEST, Options
from gateway.connectors.spark.plan import Range
from gateway.connectors.spark.scan import client_of

ROUTES_CACHED_S: Final = 1.0
"""How long routes are cached, in seconds."""
HOLD_AGAIN_S: Final = 10.0
_PAUSE_S: Final = 0.25

_log = logging.getLogger(__name__)
_Found = TypeVar("_Found")


class Catalog:
    """The queues of one query.

    _routes   (queues, topics without a route, queues whose broker does not answer) of the topics last asked for
    _warned     what was logged already
    _hold_at_s  when the holds are asked for again
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client = client_of(options)
        self._topics: tuple[str, ...] = ()
        self._routes: tuple[list[QueueRoute], list[str], list[MissingError]] = ([], [], [])
        self._asked_s = -ROUTES_CACHED_S
        self._warned: set[str] = set()
        self._name = f"spark-{uuid4().hex}"
        self._hold_at_s = 0.0

    def whole(self) -> dict[QueueRoute, Edges]:
        """The ends of every queue of the query, where a query starts. Option missingQueues says whether it waits for them.

        Raises NoSuchTopicError, MissingError, ClientError.
        """

        def poll() -> dict[QueueRoute, Edges]:
            found, missing = self._poll(self._names(()), ())
            if missing:
                raise missing[0]
            if not found:
                raise MissingError(
                    f"No topic at nameserver {self._options.nameserver} has a queue that the query reads.", gone=True
                )
            return found

        return self.until(poll)

    def edges(self, known: Collection[QueueRoute]) -> dict[QueueRoute, Edges]:
        """The ends of the queues that are there, for the next batch of a query that has read `known`.

        Queues that are not there are left out when option missingQueues is `wait`, and without failOnDataLoss when they do not
        exist any more. Else raises MissingError; ClientError when no name server or broker answers.
        """

        def poll() -> dict[QueueRoute, Edges]:
            found, missing = self._poll(self._names(known), known)
            for one in missing:
                if not self._options.waits and (self._options.fail_on_data_loss or not one.gone):
                    raise one
                self._warn(f"the query goes on without it: {one}")
            return found

        return self.until(poll)

    def present(self) -> tuple[dict[QueueRoute, Edges], bool]:
        """(ends of the queues that are there, True when some are not). Raises ClientError when no server answers."""
        found, missing = self.until(lambda: self._poll(self._names(()), ()))
        return found, bool(missing)

    def starting(self, edges: Mapping[QueueRoute, Edges]) -> Position:
        """Where the query starts, from its options. Raises OptionError, TopicRemadeError."""
        if self._options.starting_ms >= 0:
            return self._client.search(list(edges), self._options.starting_ms)
        return _edge("startingOffsets", self._options.starting, edges)

    def ending(self, edges: Mapping[QueueRoute, Edges]) -> Position:
        """Where a batch query ends, from its options. Raises OptionError, TopicRemadeError."""
        if self._options.ending_ms >= 0:
            return self._client.search(list(edges), self._options.ending_ms)
        return _edge("endingOffsets", self._options.ending, edges)

    def available(self, ranges: Sequence[Range]) -> list[Range]:
        """The ranges, of the epoch that their queues have now.

        Raises MissingError, and DataLossError when messages are gone; without failOnDataLoss these are left out and logged.
        """
        wanted = [one for one in ranges if one.start < one.end]

        def poll() -> list[Range]:
            queues = [one.queue for one in wanted]
            found, missing = self._poll(tuple(dict.fromkeys(queue.topic for queue in queues)), queues)
            for one in missing:
                if self._options.fail_on_data_loss or not one.gone:
                    raise one
            return [kept for one in wanted for kept in self._kept(one, found.get(one.queue))]

        return self.until(poll) if wanted else []

    def hold(self, position: Mapping[QueueRoute, int]) -> None:
        """Keep what the query has to read from `position` on; asked for once in HOLD_AGAIN_S: an older hold holds more."""
        now = time.monotonic()
        if self._options.hold_ms and now >= self._hold_at_s:
            self._client.hold(self._name, position, self._options.hold_ms)
            self._hold_at_s = now + min(HOLD_AGAIN_S, self._options.hold_ms / 2000)

    def lose(self, losses: Sequence[DataLossError]) -> None:
        """Messages of the query are gone: raises the first one, or logs all without failOnDataLoss."""
        for one in losses:
            if self._options.fail_on_data_loss:
                raise one
            self._warn(f"lost: {one}")

    def _kept(self, one: Range, now: Edges | None) -> list[Range]:
        """The part of a range that is stored: [] or one range."""
        if now is None or is_remade(one.epoch, now.epoch):
            self.lose([TopicRemadeError(one.queue, one.start)])
            return []
        if one.start < now.first:
            self.lose([OffsetExpiredError(one.queue, one.start, now.first)])
        if one.end > now.after:
            self.lose([OffsetAheadError(one.queue, one.end, now.after)])
        kept = Range(one.queue, max(one.start, now.first), min(one.end, now.after), now.epoch)
        return [kept] if kept.start < kept.end else []

    def until(self, poll: Callable[[], _Found]) -> _Found:
        """The value of `poll`. It is called again for `retry_s` while something is missing; without end when the query waits.

        An end of a queue before the position of the query is looked at again too: a broker that starts may be behind itself.
        """
        deadline = time.monotonic() + self._options.retry_s
        while True:
            try:
                return poll()
            except (MissingError, OffsetAheadError, UnreachableError) as error:
                waits = self._options.waits and not isinstance(error, OffsetAheadError)
                if not waits and (time.monotonic() >= deadline or not self._may_pass(error)):
                    raise
                if waits:
                    self._warn(f"waiting: {error}")
            self._asked_s = -ROUTES_CACHED_S
            time.sleep(_PAUSE_S)

    def _may_pass(self, error: SourceError | ClientError) -> bool:
        """False for a topic that was never there, at a name server that knows others: its name is wrong."""
        if isinstance(error, NoSuchTopicError):
            known = self._others()
            return not known or error.topic in known
        return not isinstance(error, UnreachableError)

    def _poll(
        self, topics: tuple[str, ...], known: Collection[QueueRoute]
    ) -> tuple[dict[QueueRoute, Edges], list[MissingError]]:
        """(ends of the queues of `topics`, what is missing of them and of `known`). Raises ClientError."""
        now = time.monotonic()
        if now - self._asked_s >= ROUTES_CACHED_S or topics != self._topics:
            self._topics, self._routes = topics, self._ask_routes(topics)
            self._asked_s = now
        queues, unknown, missing = self._routes
        found = self._client.bounds(queues)
        before = {queue.topic for queue in known}
        lost = [*(self._unknown(topic, topic in before) for topic in unknown), *missing]
        named = {one for queue in queues for one in (queue[:2],)}
        for queue in sorted({*queues, *(one for one in known if one.topic in topics)} - found.keys()):
            if queue[:2] in named:
                lost.append(
                    MissingError(f"{place(queue)} does not exist any more: the broker has fewer queues. {_REMEDY}", gone=True)
                )
            elif any(one.topic == queue.topic for one in queues):
                lost.append(
                    MissingError(
                        f"{place(queue)}: the name server has no broker of this name with the topic. {_REMEDY}", gone=False
                    )
                )
        return found, lost

    def _ask_routes(self, topics: Sequence[str]) -> tuple[list[QueueRoute], list[str], list[MissingError]]:
        queues: list[QueueRoute] = []
        unknown: list[str] = []
        missing: list[MissingError] = []
        for topic in topics:
            try:
                route = self._client.route(topic)
            except UnknownTopicError:
                unknown.append(topic)
                continue
            queues += route.queues
            for queue in route.offline[:1]:
                missing.append(MissingError(f"{place(queue)}: its broker has no master that answers. {_REMEDY}", gone=False))
            if not route.queues and not route.offline:
                missing.append(MissingError(f"Topic {topic!r} has no queue that can be read. {_REMEDY}", gone=True))
        return queues, unknown, missing

    def _unknown(self, topic: str, known: bool) -> MissingError:
        if known:
            return MissingError(
                f"Topic {topic!r} is not at nameserver {self._options.nameserver} any more: it was deleted, or its brokers are "
                f"offline. {_REMEDY}",
                gone=True,
            )
        return NoSuchTopicError(topic, self._options.nameserver, get_close_matches(topic, self._others(), n=2))

    def _others(self) -> list[str]:
        """The names of all topics, for a hint; [] when the user may not list them."""
        try:
            return self._client.topics()
        except AccessError:
            return []

    def _names(self, known: Collection[QueueRoute]) -> tuple[str, ...]:
        """The topics of the query; with a pattern, also those of `known` that match it."""
        if not self._options.pattern:
            return self._options.topics
        pattern = re.compile(self._options.pattern)
        names = {*self._client.topics(), *(queue.topic for queue in known)}
        return tuple(
            name
            for name in sorted(names)
            if pattern.fullmatch(name) and not is_system_topic(name) and not is_derived_topic(name)
        )

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning("%s", text)


_REMEDY: Final = (
    "Start the broker or create the topic again, set option missingQueues=wait to wait for it, or start with a new checkpoint."
)


def _edge(option: str, text: str, edges: Mapping[QueueRoute, Edges]) -> Position:
    if text == EARLIEST:
        return {queue: now.first for queue, now in edges.items()}
    if text == LATEST:
        return {queue: now.after for queue, now in edges.items()}
    return resolve(option, text, edges)
