"""One remoting connection: requests become commands, events become replies by their tickets."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import Final, final

from domain.access.principal import GATEWAY, Principal
from domain.client.node import NodeFrame
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Event, Received, Refused
from domain.limits import SMALL_ANSWER_BYTES
from protocols.adapter import Peer
from protocols.remoting import access, codes, namespace
from protocols.remoting.client import Client, NodeInfo
from protocols.remoting.clients import receive, send
from protocols.remoting.clients.header_cache import HeaderCache
from protocols.remoting.clients.node_requests import NodeRequests
from protocols.remoting.controller import dispatch as controller_dispatch
from protocols.remoting.dispatch import READERS, REASONS
from protocols.remoting.framed_transport import FramedTransport
from protocols.remoting.namespace import Namespaces
from protocols.remoting.nodes.replication import dispatch as replication_dispatch
from protocols.remoting.status import REFUSALS, response_code
from protocols.remoting.ticket import MultiTicket, Outcome, PartTicket, Reader, Rendering, RequestError, Steps, Ticket, success
from protocols.remoting.tools.pages import TOO_LONG
from protocols.remoting.wire.fastjson import ANSWER_BYTES_MAX, LongAnswerError
from protocols.remoting.wire.frame import Frame, FrameDecoder

LISTINGS: Final = frozenset({
    codes.GET_ALL_TOPICS, codes.GET_UNIT_TOPICS, codes.GET_UNIT_SUBSCRIBED,
    codes.GET_UNIT_SUBSCRIBED_ALONE, codes.GET_ALL_GROUPS, codes.GET_TOPICS, codes.GET_TOPICS_OF_CLUSTER, codes.GET_CONSUMERS,
    codes.GET_CONSUMED, codes.GET_TOPIC_STATS, codes.GET_PROGRESS, codes.GET_BACKLOG, codes.GET_TIME_SPANS,
    codes.GET_ALL_OFFSETS, codes.QUERY_CORRECTION,
})  # fmt: skip
"""Requests about all topics, groups or queues. One connection has one of them at a time; the next one begins when its reply
has been written, and nothing is read meanwhile."""

COMMANDS_PER_TURN: Final = 16
"""Commands of one request that are carried out in one turn of the loop; the others follow in the next turns."""

SENDS: Final = frozenset({codes.SEND, codes.SEND_V2, codes.SEND_BATCH})


@final
class RemotingConnection(FramedTransport[Frame]):
    """The connection of a client of the name server, of the broker, or of both: their request codes do not collide.

    _header_cache       headers of sends that all connections have seen
    _lease_returns      commands that end leases whose messages were not sent
    _namespace_checked  True: a request was searched for a namespace
    _namespaces         renames topics and groups; None: no request had a namespace
    _later              commands of requests with many of them and of LISTINGS, for the next turns; nothing is read meanwhile
    _listing            True: a request of LISTINGS is not answered
    _readers            request code -> reader, of the kind of port that this is
    _rendering          the reply that is written over many turns: to a request of LISTINGS
    _steps              requests that are read over many turns; nothing is read meanwhile
    _unanswered         requests that wait for their reply
    """

    def __init__(self, node: NodeInfo, peer: Peer, header_cache: HeaderCache, now: int) -> None:
        config = node.config
        super().__init__(FrameDecoder(config.frame_bytes_max), config, node.uploads, node.unread, peer, now)
        self._node = node
        self._readers = _readers_of(node)
        self._client = Client(node, peer)
        self._node_requests = NodeRequests(self._client)
        self._header_cache = header_cache
        self._lease_returns: list[Command] = []
        self._later: deque[Command] = deque()
        self._steps: deque[tuple[Frame, Principal | None, Steps]] = deque()
        self._rendering: tuple[Ticket, Rendering] | None = None
        self._listing = False
        self._unanswered = 0
        self._namespaces: Namespaces | None = None
        self._namespace_checked = False

    def _take(self, frames: list[Frame]) -> list[Command]:
        """A request that cannot become a command is answered at once."""
        commands: list[Command] = []
        for frame in frames:
            if frame.flag & 1 == 0:
                self._request(frame, commands)
            elif self._node_requests.awaits(frame):
                reply = frame if self._namespaces is None else self._namespaces.reply_to_stored(frame)
                commands.append(self._node_requests.answered(reply))
        if not self._may_read():
            self.reading = False
        return commands

    def _may_read(self) -> bool:
        return not (self._later or self._steps or self._listing or self._unanswered >= self._config.requests_max)

    def _request(self, frame: Frame, commands: list[Command]) -> None:
        code = frame.code
        if code == codes.NODE_FRAME:
            commands.append(NodeFrame(frame.body))
            return
        authority = self._node.authority
        principal = None if authority is None else access.identify(authority, frame, self._client.peer)
        try:
            if isinstance(principal, Failure):
                raise RequestError(response_code(principal, code), principal.text, principal.code)
            if self._namespaces is not None or not self._namespace_checked or code not in SENDS:
                frame = self._in_namespace(frame)
            if code in SENDS:
                outcome = send.read(self._client, frame, self._header_cache)
            else:
                reader = self._readers.get(code)
                if reader is None:
                    reason = REASONS.get(code, f"request type {code} not supported")
                    raise RequestError(codes.NOT_SUPPORTED, f" {reason}")
                read = reader(self._client, frame)
                if isinstance(read, Generator):
                    try:
                        next(read)
                        self._steps.append((frame, principal, read))
                        return
                    except StopIteration as stop:  # short enough for this turn
                        read = stop.value
                outcome = read
                if principal is not None and isinstance(outcome, bytes) and code not in access.UNCHECKED:
                    outcome = access.checked_reply(frame, outcome)
        except RequestError as error:
            outcome = self._error_reply(frame, error)
        self._carry_out(frame, principal, outcome, commands)

    def _error_reply(self, frame: Frame, error: RequestError) -> bytes:
        self._node.refused("remoting", (error.reason or REFUSALS[error.code]).value)
        return Ticket(frame, success).reply(error.code, remark=error.remark)

    def _carry_out(
        self, frame: Frame, principal: Principal | Failure | None, outcome: Outcome, commands: list[Command]
    ) -> None:
        """Add the commands of a request to `commands`, or queue its reply."""
        if not isinstance(outcome, bytes):
            if isinstance(principal, Principal):
                for command in outcome:
                    command.principal = principal
            if frame.code in LISTINGS:
                if self._listing or self._later or self._unwritten:
                    self._later.extend(outcome)
                    outcome = ()
                self._listing = True
            elif len(outcome) > COMMANDS_PER_TURN:
                self._later.extend(outcome[COMMANDS_PER_TURN:])
                outcome = outcome[:COMMANDS_PER_TURN]
            commands.extend(outcome)
            self._unanswered += frame.flag & 2 == 0
        elif frame.flag & 2 == 0:
            self._queue(outcome)

    def _in_namespace(self, frame: Frame) -> Frame:
        """The request with its names in its namespace.

        The namespace of the first request is looked at, then that of all requests except sends; once a request had a
        namespace, that of all requests.
        """
        self._namespace_checked = True
        if self._namespaces is None:
            if not namespace.namespace_of(frame):
                return frame
            self._namespaces = Namespaces()
        return self._namespaces.to_stored(frame)

    def answer(self, event: Event, now: int) -> None:
        """Queue a reply, unless the request is oneway or waits for more events; or a request of the node (no ticket)."""
        if self.closed:
            return
        ticket = getattr(event, "ticket", None)
        if type(ticket) is Ticket:
            self._active_ns = now
            if ticket.code in LISTINGS:
                self._listed(ticket, event, now)
                return
            self._count_answer(ticket, now)
            if not ticket.oneway:
                if type(event) is Refused:
                    self._queue(self._refusal(ticket, event))
                else:
                    rendered = ticket.render(self._client, ticket, event)
                    assert isinstance(rendered, bytes)
                    sent = self._reply(ticket, rendered)
                    if not sent and type(event) is Received:
                        self._lease_returns += receive.return_leases(ticket, event)
        elif type(ticket) is PartTicket:
            if ticket.multi.put(ticket.at, event):
                self._active_ns = now
                self._complete(ticket.multi, now)
        elif ticket is None:
            parts = self._node_requests.encode(event)
            if parts:
                self._active_ns = now
                self._out += parts if self._namespaces is None else (b"".join(parts),)

    def _listed(self, ticket: Ticket, event: Event, now: int) -> None:
        """Write the reply to a request of LISTINGS, over many turns if it is long."""
        if type(event) is Refused:
            self._end_listing(ticket, self._refusal(ticket, event), now)
        elif ticket.oneway:
            self._end_listing(ticket, b"", now)
        else:
            rendered = ticket.render(self._client, ticket, event)
            if isinstance(rendered, bytes):
                self._end_listing(ticket, rendered, now)
            else:
                self._rendering = (ticket, rendered)
                self._render(now)

    def _render(self, now: int) -> None:
        """Write on at the long reply."""
        assert self._rendering is not None
        ticket, rendering = self._rendering
        try:
            next(rendering)
            return
        except StopIteration as stop:
            reply: bytes = stop.value
        except LongAnswerError:
            remedy = TOO_LONG.get(ticket.code, "ask about one topic or group")
            text = f"the answer exceeds the {ANSWER_BYTES_MAX} bytes that clients take: {remedy}"
            reply = ticket.reply(codes.SYSTEM_ERROR, remark=text)
        self._rendering = None
        self._end_listing(ticket, reply, now)

    def _end_listing(self, ticket: Ticket, reply: bytes, now: int) -> None:
        self._listing = False
        self._count_answer(ticket, now)
        if ticket.oneway:
            self._read_on(now)
        else:
            self._reply(ticket, reply)

    def _complete(self, multi: MultiTicket, now: int) -> None:
        self._count_answer(multi.ticket, now)
        if not multi.ticket.oneway:
            self._reply(multi.ticket, multi.render(self._client, multi.ticket, multi.events))

    def _reply(self, ticket: Ticket, data: bytes) -> bool:
        """Queue a reply. False: FLOW_CONTROL was queued instead, because the client does not read its replies.

        Replies of more than SMALL_ANSWER_BYTES are refused when the unread replies of this host leave no room: a client can
        request megabytes in a few bytes, thousands of times, before any reply is written.
        """
        size = len(data)
        sent = size <= SMALL_ANSWER_BYTES or size <= self._answers.room
        if not sent:
            text = f"{self._unwritten} bytes of answers wait for this client to read them, and others of its host: ask again"
            data = ticket.reply(codes.FLOW_CONTROL, remark=text)
            self._node.refused("remoting", ErrorCode.RATE.value)
        self._queue(data)
        return sent

    def _count_answer(self, ticket: Ticket, now: int) -> None:
        if not ticket.oneway:
            self._unanswered -= 1
            if not self.reading:
                self._read_on(now)

    def _refusal(self, ticket: Ticket, event: Refused) -> bytes:
        failure = event.failure
        if failure.code is ErrorCode.FLUSH_TIMEOUT and ticket.code in SENDS:
            return send.flush_timeout(self._client, ticket, failure)
        return ticket.reply(response_code(failure, ticket.code), remark=failure.text or failure.code.value)

    def outgoing(self) -> Sequence[bytes]:
        """Encoded frames in the order of the answers."""
        out = super().outgoing()
        return out if self._namespaces is None else [self._namespaces.to_client(each) for each in out]

    def deadline(self) -> int | None:
        """As of the transport; 0 while commands wait for a turn."""
        if self.closed:
            return None
        if self._rendering is not None or self._steps or self._lease_returns or (self._later and self._may_go_on()):
            return 0
        return super().deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """Commands that return leases, or those of the next turn; Disconnected when a deadline has passed."""
        due = self.deadline()
        if due is None or now < due:
            return ()
        if self._lease_returns:
            returns, self._lease_returns = self._lease_returns, []
            for command in returns:
                command.principal = GATEWAY
            return returns
        if self._rendering is not None:
            self._render(now)
            return ()
        if self._later and self._may_go_on():
            return self._go_on(now)
        if self._steps:
            return self._step(now)
        return super().expire(now)

    def _may_go_on(self) -> bool:
        """True when the next of `_later` may be carried out: a listing waits until the one before is answered and written."""
        return not _is_listing(self._later[0]) or not (self._listing or self._unwritten)

    def _go_on(self, now: int) -> Sequence[Command]:
        """Commands of `_later` for this turn; a listing is the last of them."""
        commands: list[Command] = []
        while self._later and len(commands) < COMMANDS_PER_TURN and self._may_go_on():
            commands.append(self._later.popleft())
            if _is_listing(commands[-1]):
                self._listing = True
                return commands
        self._read_on(now)
        return commands

    def _step(self, now: int) -> Sequence[Command]:
        """Read the oldest request of many turns on. Returns its commands when it has been read."""
        frame, principal, steps = self._steps[0]
        try:
            next(steps)
            return ()
        except StopIteration as stop:
            outcome: Outcome = stop.value
        except RequestError as error:
            outcome = self._error_reply(frame, error)
        self._steps.popleft()
        commands: list[Command] = []
        self._carry_out(frame, principal, outcome, commands)
        self._read_on(now)
        return commands

    def _close(self, reason: str) -> Sequence[Command]:
        self._later.clear()
        self._steps.clear()
        self._rendering = None
        self._client.leave_group("")
        return super()._close(reason)


def _readers_of(node: NodeInfo) -> Mapping[int, Reader]:
    """Request code -> reader, for the port of a broker, of a controller or of a replica."""
    if node.is_controller:
        return controller_dispatch.READERS
    return replication_dispatch.READERS if node.is_replica else READERS


def _is_listing(command: Command) -> bool:
    ticket = getattr(command, "ticket", None)
    return type(ticket) is Ticket and ticket.code in LISTINGS
