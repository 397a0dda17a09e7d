"""Registration of a node at one name server: its requests on one connection after the other. No I/O, times are arguments.

    connected --322--> what the name server has --30012 or 103, page by page--> registered --322, each 30 s--> registered
                                                                                 | a topic has changed
                                                                                 +--> 30012 or 103 with the changes
    lost --after a pause--> connected

A name server that does not know 30012, as Apache's, gets RocketMQ's own registrations. These have pages too, because it keeps
the topics of earlier ones (BrokerConfig.enableSplitRegistration).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import orjson

from domain.limits import REMOTING_FRAME_BYTES_MAX, SECOND_NS
from domain.nameserver.directory import AnnouncedTopics
from domain.nameserver.route import DataVersion, Registration, TopicPage, TopicQueues
from protocols.remoting import codes
from protocols.remoting.nameserver import announcement
from protocols.remoting.wire.frame import Frame, FrameDecoder, encode
from protocols.remoting.wire.header import LANGUAGE_OTHER

PAGE_TOPICS: Final = 512
"""Topics of one request: less than 100 KB, and some milliseconds of a turn."""
RENEWAL_NS: Final = 30 * SECOND_NS
RENEWALS_AT_FIRST_NS: Final = (2 * SECOND_NS, 10 * SECOND_NS)
"""Renewals after a new connection. Apache's name server removes a broker some time after the end of its older connection, and
may do so after the broker has registered by the newer one."""
ANSWER_NS: Final = 10 * SECOND_NS
"""Time for an answer, from the request on."""

Sign = Callable[[Mapping[str, str], bytes], dict[str, str]]
"""(ext fields, body) -> the ext fields with the signature of the node's user."""


class GarbledAnswerError(Exception):
    """An answer of the name server that does not fit its request."""


@final
class Registrar:
    """The registration of this node at one name server.

    registered   True: the name server has the topics, as of some version, and the lease is renewed
    fault        reason for which the connection has to be closed; "" while it may stay
    left         True: the name server has answered that the node is no longer registered
    sign         signs requests; None: they are not signed

    _plain       True: the name server does not know request code 30012
    _version     the version that the name server has; None: not known
    _goal        the version that the pages under way lead to
    _names       topics of a registration of changes that are still to be sent; None: the pages are the whole table
    _cursor      the last topic of the whole table that was sent
    _step        counts pages of 103 that are not the last: each has a version of its own, which is below zero
    _waiting     opaque of the request that waits for its answer, and the function that takes the answer
    """

    def __init__(self, broker: Registration, topics: AnnouncedTopics) -> None:
        self.registered = False
        self.fault = ""
        self.left = False
        self.sign: Sign | None = None
        self._broker = broker
        self._topics = topics
        self._decoder = FrameDecoder()
        self._out: list[bytes] = []
        self._opaque = 0
        self._waiting: tuple[int, Callable[[Frame, int], None]] | None = None
        self._due_ns: int | None = None
        self._step = 0
        self._leaving = False
        self._begin()

    def _begin(self) -> None:
        """The state of a new connection."""
        self._decoder = FrameDecoder(REMOTING_FRAME_BYTES_MAX)
        self._out.clear()
        self._waiting = None
        self._due_ns = None
        self._plain = False
        self._version: DataVersion | None = None
        self._goal = DataVersion()
        self._names: Sequence[str] | None = None
        self._cursor = ""
        self._page = 0
        self._is_last = False
        self._renewals = 0
        self.fault = ""

    def connected(self, now: int) -> None:
        """A connection is open. It is closed again when the node stops: it must not be registered any more."""
        self._begin()
        if self._leaving:
            self.left = True
            self.fault = "the node stops"
            return
        self._ask(announcement.compare(self._broker, self._topics.version), self._introduced, now)

    def lost(self) -> None:
        """Forget the connection: it has ended, or could not be opened."""
        self._begin()
        self.registered = False

    def receive(self, data: bytes, now: int) -> None:
        """Bytes of the name server. Sets `fault` for those that are no answers."""
        if self.fault:
            return
        try:
            for frame in self._decoder.feed(data):
                self._take(frame, now)
            if self._decoder.fault:
                raise GarbledAnswerError(f"it does not speak the remoting protocol ({self._decoder.fault})")
        except GarbledAnswerError as error:
            self.fault = str(error)

    def outgoing(self) -> Sequence[bytes]:
        """Frames to be written."""
        out, self._out = self._out, []
        return out

    def deadline(self) -> int | None:
        """The time at which `expire` is to be called, monotonic ns; None: at none."""
        return self._due_ns

    def expire(self, now: int) -> None:
        """An answer did not come in time, or the registration is to be renewed."""
        if self._due_ns is None or now < self._due_ns or self.fault:
            return
        if self._waiting is not None:
            self.fault = f"it has not answered within {ANSWER_NS // SECOND_NS} s"
        else:
            self._ask(announcement.compare(self._broker, self._topics.version), self._compared, now)

    def topics_changed(self, now: int) -> None:
        """Topics were made, changed or deleted: the changes are sent, at once or after the answer that is due."""
        if self._waiting is None and self._version is not None and not self.fault and not self._leaving:
            self._send_changes(now)

    def leave(self, now: int) -> None:
        """The node stops: `left` becomes True when the name server has answered."""
        if self._leaving:
            return
        self._leaving = True
        if self._waiting is None:
            if self._version is None or self.fault:
                self.left = True
            else:
                self._unregister(now)

    def _unregister(self, now: int) -> None:
        self._ask(announcement.unregister(self._broker), self._unregistered, now)

    def _unregistered(self, frame: Frame, now: int) -> None:
        _checked(frame)
        self.left = True
        self.registered = False

    def _ask(self, request: announcement.Request, then: Callable[[Frame, int], None], now: int) -> None:
        code, fields, body = request
        self._opaque += 1
        signed = fields if self.sign is None else self.sign(fields, body)
        self._out.append(encode(code, self._opaque, fields=signed, body=body, language=LANGUAGE_OTHER))
        self._waiting = (self._opaque, then)
        self._due_ns = now + ANSWER_NS

    def _take(self, frame: Frame, now: int) -> None:
        if not frame.response:
            return  # a notice to brokers (905) asks for nothing that this node does
        if self._waiting is None or frame.opaque != self._waiting[0]:
            raise GarbledAnswerError("it has answered what it was not asked")
        then = self._waiting[1]
        self._waiting = None
        self._due_ns = None
        if self._leaving and not self.left and then != self._unregistered:
            self._unregister(now)
        else:
            then(frame, now)

    def _introduced(self, frame: Frame, now: int) -> None:
        """The first answer on a connection. The node registers in any case: the name server ties it to the connection."""
        self._version = _comparison(frame)[1]
        self._send_changes(now)

    def _compared(self, frame: Frame, now: int) -> None:
        changed, self._version = _comparison(frame)
        if changed:
            self._send_changes(now)
        else:
            self._done(now)

    def _send_changes(self, now: int) -> None:
        """Send the changes that the name server lacks; the whole table when its version is not known."""
        self._goal = self._topics.version
        known = self._version
        self._names = None
        if known is not None and (known.state, known.timestamp_ms) == (self._goal.state, self._goal.timestamp_ms):
            self._names = self._topics.changed_since(known.counter)
        if self._names is None or (self._plain and len(self._names) > PAGE_TOPICS):
            self._send_whole(now)
        else:
            self._page = 0
            self._send_page(now)

    def _send_whole(self, now: int) -> None:
        self._names = None
        self._goal = self._topics.version
        self._cursor = ""
        self._page = 0
        self._send_page(now)

    def _send_page(self, now: int) -> None:
        topics: list[tuple[str, TopicQueues | None]]
        base = None
        if self._names is None:
            rows = self._topics.after(self._cursor, PAGE_TOPICS)
            last = len(rows) < PAGE_TOPICS
            topics = [*rows]
            self._cursor = rows[-1][0] if rows else self._cursor
        else:
            assert self._version is not None
            base = self._version.counter
            some, self._names = self._names[:PAGE_TOPICS], self._names[PAGE_TOPICS:]
            last = not self._names
            topics = [(name, self._topics.topic(name)) for name in some]
        there, gone = announcement.split(topics)
        if self._plain:
            self._send_registration(there, last, now)
        else:
            page = TopicPage(self._page, base, last, there, gone)
            self._ask(announcement.register_page(self._broker, self._goal, page), self._paged, now)
        self._page += 1
        self._is_last = last

    def _send_registration(self, topics: Mapping[str, TopicQueues], last: bool, now: int) -> None:
        version = self._goal
        if not last:
            self._step += 1
            version = DataVersion(version.state, version.timestamp_ms, -self._step)
        self._ask(announcement.register(self._broker, version, topics), self._registered, now)

    def _paged(self, frame: Frame, now: int) -> None:
        """The answer to a page."""
        if frame.code == codes.NOT_SUPPORTED:
            self._plain = True
            # It ties the registration to the connection by 103 only, and may have an older one: everything is sent once.
            self._send_whole(now)
            return
        taken = _checked(frame).get("taken")
        if taken not in ("true", "false"):
            raise GarbledAnswerError("its answer to a page does not say whether it was taken")
        if taken == "true":
            self._go_on(now)
        elif self._names is not None:
            self._send_whole(now)
        else:
            raise GarbledAnswerError("it takes no page of the whole table")

    def _registered(self, frame: Frame, now: int) -> None:
        """The answer to a registration by RocketMQ's request."""
        if frame.code == codes.SYSTEM_ERROR and self._names is not None:
            self._send_whole(now)  # it has forgotten this broker: the changes of one topic are refused
            return
        _checked(frame)
        self._go_on(now)

    def _go_on(self, now: int) -> None:
        if self._is_last:
            self._version = self._goal
            self._done(now)
        else:
            self._send_page(now)

    def _done(self, now: int) -> None:
        """The name server has a version of the topics."""
        self.registered = True
        if self._version != self._topics.version:
            self._send_changes(now)
            return
        first = self._renewals < len(RENEWALS_AT_FIRST_NS)
        self._due_ns = now + (RENEWALS_AT_FIRST_NS[self._renewals] if first else RENEWAL_NS)
        self._renewals += 1


def _checked(frame: Frame) -> Mapping[str, str]:
    """The ext fields of a good answer. Raises GarbledAnswerError."""
    fields = frame.fields()
    if frame.code != codes.SUCCESS or fields is None:
        raise GarbledAnswerError(f"it answers code {frame.code} {frame.remark[:200]}".rstrip())
    return fields


def _comparison(frame: Frame) -> tuple[bool, DataVersion | None]:
    """The answer to 322 -> (True when the versions differ, that of the name server). Raises GarbledAnswerError."""
    changed = _checked(frame).get("changed")
    if changed not in ("true", "false"):
        raise GarbledAnswerError("its answer does not say whether it has another version")
    if not frame.body:
        return changed == "true", None
    try:
        found = orjson.loads(frame.body)
    except orjson.JSONDecodeError as error:
        raise GarbledAnswerError("its version is no JSON") from error
    version = announcement.version_of(found) if isinstance(found, dict) else None
    if version is None:
        raise GarbledAnswerError("its version has no numbers")
    return changed == "true", version
