"""Requests that the node sends to the client of one connection: their numbers, and the replies that are waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.client.client_inquiry import ClientAnswered, Inquiry
from domain.client.membership import MembersChanged
from domain.client.node import NodeFrameOut
from domain.controller.peer import LeaderChanged
from domain.event import Event
from domain.replication.message import LogBytes
from domain.topic.lite import LiteTaken
from domain.transaction import CheckTransaction
from protocols.remoting.client import Client
from protocols.remoting.clients import callback, lite, member, transaction
from protocols.remoting.controller import sync_state
from protocols.remoting.nodes import extension
from protocols.remoting.nodes.replication.form import bytes_parts
from protocols.remoting.wire.frame import Frame

INQUIRIES_MAX: Final = 4_096
"""Requests of the node to one client that wait for a reply; beyond, the oldest is forgotten."""


@final
class NodeRequests:
    """The requests of the node on one connection.

    _inquiries  requests that wait for the client's reply, by opaque
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._opaque = 0
        self._inquiries: dict[int, Inquiry] = {}

    def encode(self, event: Event) -> Sequence[bytes]:
        """The frame of the request, in pieces, with the next opaque; none for an event that is no request."""
        opaque = self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        if type(event) is NodeFrameOut:
            return (extension.node_frame(opaque, event),)
        if type(event) is LogBytes:
            return bytes_parts(event, opaque)
        if type(event) is MembersChanged:
            return (member.members_changed(opaque, event),)
        if type(event) is CheckTransaction:
            return (transaction.check_request(self._client, opaque, event),)
        if type(event) is LeaderChanged:
            return (sync_state.role_changed(event.group, opaque),)
        if type(event) is LiteTaken:
            return (lite.notify_unsubscribe(opaque, event),)
        if type(event) is Inquiry:
            if len(self._inquiries) >= INQUIRIES_MAX:
                del self._inquiries[next(iter(self._inquiries))]
            self._inquiries[opaque] = event
            return (callback.inquiry_request(self._client.node, opaque, event),)
        return ()

    def awaits(self, reply: Frame) -> bool:
        """True when a request with the opaque of this reply waits for it."""
        return reply.opaque in self._inquiries

    def answered(self, reply: Frame) -> ClientAnswered:
        """The command of an awaited reply."""
        return callback.client_answered(self._inquiries.pop(reply.opaque), reply)
