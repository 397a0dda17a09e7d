"""State of one broker for one read: quiet or not, and the NOTIFICATION that reports new messages."""

from __future__ import annotations

from typing import Final, Protocol, final

from domain.errors import Failure
from gateway.apache.pop.brokers import PopBrokers, PopReader
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

NOTIFICATION_MS: Final = 5_000
"""Time after which a broker answers a NOTIFICATION without messages; a POP then finds messages that it failed to report. It is
longer at a broker that holds thousands of NOTIFICATIONs (`PopBrokers.poll_ms`)."""
ORDERED_NOTIFICATION_MS: Final = 1_000
"""The same for ordered groups: brokers do not report that a queue is free again."""
FRUITLESS_MS: Final = 20
"""Pause after a NOTIFICATION that a POP without messages followed; it doubles up to FRUITLESS_MS_MAX."""
FRUITLESS_MS_MAX: Final = 1_000
AGAIN_MS: Final = 1_000
"""Pause before the next POP at a quiet broker that does not support NOTIFICATION or holds its maximum of them."""


class NotifiedReader(PopReader, Protocol):
    """The read that a BrokerSide belongs to: it makes the NOTIFICATION, and is woken when there may be messages."""

    @property
    def ordered(self) -> bool:
        """True for an ordered group."""

    @property
    def is_wanted(self) -> bool:
        """True while a call may wait for messages."""

    def notification(self, poll_ms: int) -> Request:
        """A NOTIFICATION that is answered after `poll_ms` at the latest."""

    def wake(self) -> None:
        """Retry the parked calls."""


@final
class BrokerSide:
    """The state of one broker for one read.

    quiet      True: it has no messages as far as known, and gets no POP
    refusal    reason why it is quiet, if not for lack of messages: it does not support POP
    fruitless  NOTIFICATIONs in a row after which a POP found nothing
    _waits     True: a NOTIFICATION, or the pause before it, is in progress
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
        """Mark the broker as quiet, and send it a NOTIFICATION. `refusal`: the reason if it does not support POP."""
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
            # The broker does not support NOTIFICATION, or does not have the topic any more.
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
        """The broker may have messages now: wake the read."""
        self._waits = False
        self.quiet = False
        if self._read.is_wanted:
            self._read.wake()

    def unblock(self) -> None:
        """Wake the read of a quiet broker, since a lease of the ordered group has ended: the next message may be free."""
        if self.quiet:
            self.quiet = False
            self._read.wake()
