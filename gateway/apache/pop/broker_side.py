"""One broker as one read sees it: whether it has something, and the NOTIFICATION by which it tells when it has."""

from __future__ import annotations

from typing import Final, Protocol, final

from domain.errors import Failure
from gateway.apache.pop.brokers import PopBrokers, PopReader
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

NOTIFICATION_MS: Final = 5_000
"""Time after which a broker answers a NOTIFICATION that there is nothing; what it forgot to tell is found by then. It is longer
where a broker holds thousands of them (`PopBrokers.poll_ms`)."""
ORDERED_NOTIFICATION_MS: Final = 1_000
"""The same in ordered groups: brokers do not tell when a queue is free again."""
FRUITLESS_MS: Final = 20
"""Pause after a NOTIFICATION whose messages were not for this group; it doubles up to FRUITLESS_MS_MAX."""
FRUITLESS_MS_MAX: Final = 1_000
AGAIN_MS: Final = 1_000
"""Pause before a quiet broker is asked again that cannot tell, or that holds as many NOTIFICATIONs as it may."""


class NotifiedReader(PopReader, Protocol):
    """The read: it tells what to ask for, and is told when there is something."""

    @property
    def ordered(self) -> bool:
        """True: of an ordered group."""

    @property
    def is_wanted(self) -> bool:
        """True: a call may wait for messages."""

    def notification(self, poll_ms: int) -> Request:
        """A NOTIFICATION that is answered after `poll_ms` at the latest."""

    def wake(self) -> None:
        """Let parked calls try again."""


@final
class BrokerSide:
    """The state of one broker for one read.

    quiet      it has nothing, as far as is known: it is not asked
    refusal    why it is quiet, when it is not that it has nothing: it knows no POP
    fruitless  NOTIFICATIONs in a row after which a POP found nothing
    _waits     a NOTIFICATION, or the pause before it, is under way
    """

    __slots__ = ("_broker", "_brokers", "_read", "_waits", "fruitless", "quiet", "refusal")

    def __init__(self, read: NotifiedReader, brokers: PopBrokers, broker: str) -> None:
        self.quiet = False
        self.refusal: Failure | None = None
        self.fruitless = 0
        self._waits = False
        self._read = read
        self._brokers = brokers
        self._broker = broker

    def quieten(self, refusal: Failure | None = None) -> None:
        """The broker has nothing now: ask it to tell when it has. `refusal`: why it will have nothing for some time."""
        self.quiet = True
        self.refusal = refusal
        if self._waits:
            return
        self._waits = True
        if self.fruitless:
            self._brokers.after(min(FRUITLESS_MS << min(self.fruitless - 1, 10), FRUITLESS_MS_MAX), self._watch)
        else:
            self._watch()

    def _watch(self) -> None:
        wanted_ms = ORDERED_NOTIFICATION_MS if self._read.ordered else NOTIFICATION_MS
        poll_ms = self._brokers.poll_ms(self._broker, wanted_ms)
        if not self._brokers.notify(self._broker, self._read.notification(poll_ms), poll_ms, self._notified):
            self._brokers.after(AGAIN_MS, self._found)

    def _notified(self, answer: Frame | Failure) -> None:
        if isinstance(answer, Failure):
            self._waits = self.quiet = False
            self._brokers.miss(self._broker, self._read)
        elif answer.code != codes.SUCCESS:
            # A broker that knows no NOTIFICATION, or no longer the topic.
            self._brokers.after(AGAIN_MS, self._found)
        elif (answer.fields() or {}).get("hasMsg") == "true":
            self.fruitless += 1
            self._found()
        elif (answer.fields() or {}).get("pollingFull") == "true":
            self._brokers.after(AGAIN_MS, self._found)
        elif self._read.is_wanted and self.quiet:
            self._watch()
        else:
            self._waits = False
            self.quiet = False

    def _found(self) -> None:
        """The broker may have something now."""
        self._waits = False
        self.quiet = False
        if self._read.is_wanted:
            self._read.wake()

    def unblock(self) -> None:
        """A lease of an ordered group has ended: the next message of its queue may be free."""
        if self.quiet:
            self.quiet = False
            self._read.wake()
