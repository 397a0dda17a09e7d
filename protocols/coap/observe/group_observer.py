"""Observers that are members of a consumer group: GET with Observe 0 and `group=`.

    registered --Receive--> empty: Receive again | a message, leased --> CON --ACK--> Acknowledge, Receive
                                                                          `--RST, silence, Observe 1--> released at once, gone

A member has one message at a time. Its ACK is the acknowledgement: what it was sent in a confirmable message is settled.
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
"""The ticket of commands whose outcome nobody waits for."""
INVISIBLE_MS: Final = 120_000
"""Least duration of a lease: a confirmable message is sent again for 93 s, and nobody else may get it meanwhile."""


@final
class Member:
    """One member, which a Feed has in place of a watched path.

    asked      group, topic, and where the group begins
    filter     it receives messages that match; None: all of the topic
    exchange   the registration, until it is answered; None: it was
    held       the lease of the message that waits for its ACK; None: it has none
    """

    __slots__ = ("asked", "exchange", "filter", "held")

    def __init__(self, asked: Reception, exchange: Exchange, wanted: Filter | None = None) -> None:
        self.filter = wanted
        self.asked = asked
        self.exchange: Exchange | None = exchange
        self.held: Receipt | None = None

    def receive(self, ticket: object, wait_ms: int = limits.WAIT_MS_MAX) -> Receive:
        """The command for its next message."""
        asked = self.asked
        invisible_ms = max(asked.invisible_ms, INVISIBLE_MS)
        return Receive(
            ticket, asked.group, asked.topic, 1, invisible_ms, wait_ms, filter=self.filter, from_first=asked.from_first
        )

    def acknowledged(self, ticket: object) -> Sequence[Command]:
        """The ACK of a notification has come: settle its message, and ask for the next one."""
        held, self.held = self.held, None
        if held is None:
            return ()
        return Acknowledge(SETTLING, self.asked.group, self.asked.topic, [held]), self.receive(ticket)

    def release(self, receipt: Receipt | None = None) -> Sequence[Command]:
        """The member is gone: its message, or one that has come too late, is available to others at once."""
        held, self.held = (receipt or self.held), None
        return () if held is None else (Extend(SETTLING, self.asked.group, self.asked.topic, [held], 0),)
