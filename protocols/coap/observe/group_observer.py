"""Observers that are members of a consumer group: GET with Observe 0 and `group=`.

    registered --Receive--> empty: Receive again | a message, leased --> CON --ACK--> Acknowledge, Receive
                                                                          `--RST, silence, Observe 1--> released at once, ended

A member has one message at a time. The ACK of the confirmable message settles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain import limits
from domain.command import Acknowledge, Command, Extend, Receive
from domain.filter.filter import Filter
from domain.message.receipt import Receipt
from protocols.coap.exchange.exchange import Exchange
from protocols.coap.resources.translate import Reception

SETTLING: Final = "settling"
"""Ticket of commands whose outcome is ignored."""
INVISIBLE_MS: Final = 120_000
"""Least duration of a lease: longer than the 93 s of retransmissions of a confirmable message."""


@final
class Member:
    """Member of a consumer group; its Feed receives for it, and watches no path.

    asked      group, topic, and start position of the group
    filter     filter of its messages; None: all messages of the topic
    exchange   the unanswered registration; None: it is answered
    held       the lease of the message that waits for its ACK; None: no message
    """

    __slots__ = ("asked", "exchange", "filter", "held")

    def __init__(self, asked: Reception, exchange: Exchange, wanted: Filter | None = None) -> None:
        self.filter = wanted
        self.asked = asked
        self.exchange: Exchange | None = exchange
        self.held: Receipt | None = None

    def receive(self, ticket: object, wait_ms: int = limits.WAIT_MS_MAX) -> Receive:
        """Command for its next message."""
        asked = self.asked
        invisible_ms = max(asked.invisible_ms, INVISIBLE_MS)
        return Receive(
            ticket, asked.group, asked.topic, 1, invisible_ms, wait_ms, filter=self.filter, from_first=asked.from_first
        )

    def acknowledged(self, ticket: object) -> Sequence[Command]:
        """Settle the message of an acknowledged notification, and receive the next one."""
        held, self.held = self.held, None
        if held is None:
            return ()
        return Acknowledge(SETTLING, self.asked.group, self.asked.topic, [held]), self.receive(ticket)

    def release(self, receipt: Receipt | None = None) -> Sequence[Command]:
        """End the lease of a member that has left, or of a message received after that; it is redelivered at once."""
        held, self.held = (receipt or self.held), None
        return () if held is None else (Extend(SETTLING, self.asked.group, self.asked.topic, [held], 0),)
