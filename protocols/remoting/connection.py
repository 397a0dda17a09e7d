"""One remoting connection: frames in order of time. Requests become commands; events become replies by their tickets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.command import Command, Disconnected
from domain.errors import ErrorCode, Failure
from domain.event import Event, Received, Refused
from domain.limits import SECOND_NS, SMALL_ANSWER_BYTES, UNREAD_BYTES_MAX
from domain.lite import LiteTaken
from domain.membership import MembersChanged
from domain.principal import GATEWAY, Principal
from domain.relay import Inquiry, PositionsMoved
from domain.transaction import CheckTransaction
from protocols.adapter import Peer
from protocols.remoting import access, callback, codes, lite, member, namespace, receive, send, transaction
from protocols.remoting.client import Client, Facts
from protocols.remoting.dispatch import READERS, REASONS
from protocols.remoting.frame import Frame, FrameDecoder
from protocols.remoting.namespace import Namespaces
from protocols.remoting.send import Shapes
from protocols.remoting.status import REFUSALS, response_code
from protocols.remoting.ticket import Join, Part, RequestError, Ticket, done

ASKED_MAX: Final = 4_096
"""Questions of ours that a client may leave without an answer before the oldest is forgotten."""

SENDS: Final = frozenset({codes.SEND, codes.SEND_V2, codes.SEND_BATCH})

END_OF_STREAM: Final = "end-of-stream"
IDLE: Final = "idle"
FRAME_TIMEOUT: Final = "frame-timeout"
REASONS_CLOSED: Final = (END_OF_STREAM, IDLE, FRAME_TIMEOUT, "frame-length", "frame-header")
"""Every reason that a Disconnected of this protocol can have."""


@final
class RemotingConnection:
    """A client of the name server, of the broker, or of both at once: the codes of the two do not collide."""

    __slots__ = (
        "_active_ns", "_asked", "_began_ns", "_client", "_decoder", "_facts", "_known", "_language", "_opaque", "_open", "_out",
        "_owed", "_shapes", "_spaces", "_unwritten", "closed", "reading",
    )  # fmt: skip

    def __init__(self, facts: Facts, peer: Peer, shapes: Shapes, now: int) -> None:
        self._facts = facts
        self._client = Client(facts, peer)
        self._shapes = shapes
        self._decoder = FrameDecoder(facts.config.frame_bytes_max)
        self._out: list[bytes] = []
        self._owed: list[Command] = []
        self._unwritten = 0
        self._open = 0
        self._opaque = 0
        self._language = 0
        self._asked: dict[int, Inquiry] = {}
        self._spaces: Namespaces | None = None
        self._known = False
        self._active_ns = now
        self._began_ns = now
        self.reading = True
        self.closed = False

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Frames -> commands. Requests that cannot become one are answered here."""
        if self.closed:
            return ()
        if not data:
            return self._close(END_OF_STREAM)
        decoder = self._decoder
        self._active_ns = now
        begun = decoder.held == 0
        frames = decoder.feed(data)
        if begun or frames:
            self._began_ns = now
        commands: list[Command] = []
        for frame in frames:
            if frame.flag & 1 == 0:
                self._request(frame, commands)
            elif frame.opaque in self._asked:
                said = frame if self._spaces is None else self._spaces.heard(frame)
                commands.append(callback.answered(self._asked.pop(frame.opaque), said))
        if decoder.fault:
            commands.extend(self._close(decoder.fault))
        elif self._open >= self._facts.config.requests_max:
            self.reading = False
        return commands

    def _request(self, frame: Frame, commands: list[Command]) -> None:
        code = frame.code
        authority = self._facts.authority
        principal = None if authority is None else access.identify(authority, frame, self._client.peer)
        try:
            if isinstance(principal, Failure):
                raise RequestError(response_code(principal, code), principal.text, principal.code)
            if self._spaces is not None or not self._known or code not in SENDS:
                frame = self._placed(frame)
            if code in SENDS:
                outcome = send.read(self._client, frame, self._shapes)
            else:
                reader = READERS.get(code)
                if reader is None:
                    reason = REASONS.get(code, f"request type {code} not supported")
                    raise RequestError(codes.NOT_SUPPORTED, f" {reason}")
                if code == codes.HEARTBEAT:
                    self._language = frame.language
                outcome = reader(self._client, frame)
                if principal is not None and isinstance(outcome, bytes) and code not in access.OPEN:
                    outcome = access.guarded(frame, outcome)
        except RequestError as error:
            outcome = Ticket(frame, done).reply(error.code, remark=error.remark)
            self._facts.refused("remoting", (error.reason or REFUSALS[error.code]).value)
        if not isinstance(outcome, bytes):
            if isinstance(principal, Principal):
                for command in outcome:
                    command.principal = principal
            commands.extend(outcome)
            self._open += frame.flag & 2 == 0
        elif frame.flag & 2 == 0:
            self._out.append(outcome)

    def _placed(self, frame: Frame) -> Frame:
        """A request in the namespace that it is of. Sends are looked at when one of the requests before had a namespace."""
        self._known = True
        if self._spaces is None:
            if not namespace.of(frame):
                return frame
            self._spaces = Namespaces()
        return self._spaces.inward(frame)

    def answer(self, event: Event, now: int) -> None:
        """One reply, unless its request was oneway or waits for more events; or a notice of ours."""
        if self.closed:
            return
        ticket = getattr(event, "ticket", None)
        if type(ticket) is Ticket:
            self._active_ns = now
            self._answered(ticket)
            if not ticket.oneway:
                if type(event) is Refused:
                    self._out.append(self._refusal(ticket, event))
                else:
                    given = self._reply(ticket, ticket.render(self._client, ticket, event))
                    if not given and type(event) is Received:
                        self._owed += receive.back(ticket, event)
        elif type(ticket) is Part:
            if ticket.join.put(ticket.at, event):
                self._active_ns = now
                self._complete(ticket.join)
        elif ticket is None:
            self._unasked(event, now)

    def _unasked(self, event: Event, now: int) -> None:
        """A notice or a question of ours, with an opaque of ours."""
        opaque = self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        if type(event) is MembersChanged:
            self._out.append(member.changed(opaque, event))
        elif type(event) is CheckTransaction:
            self._out.append(transaction.check(self._client, opaque, event))
        elif type(event) is LiteTaken:
            self._out.append(lite.taken(opaque, event))
        elif type(event) is PositionsMoved:
            self._out.append(callback.moved(self._facts, opaque, self._language, event))
        elif type(event) is Inquiry:
            if len(self._asked) >= ASKED_MAX:
                del self._asked[next(iter(self._asked))]
            self._asked[opaque] = event
            self._out.append(callback.ask(self._facts, opaque, event))
        else:
            return
        self._active_ns = now

    def _complete(self, join: Join) -> None:
        self._answered(join.ticket)
        if not join.ticket.oneway:
            self._reply(join.ticket, join.render(self._client, join.ticket, join.events))

    def _reply(self, ticket: Ticket, data: bytes) -> bool:
        """Queue a reply. One that is large has to wait for its turn when much is queued: the client is told to ask again.

        A client can ask in a few bytes for what takes megabytes, thousands of times before anything of it has been written.
        False: that is what it was told.
        """
        given = len(data) <= SMALL_ANSWER_BYTES or self._unwritten <= UNREAD_BYTES_MAX
        if not given:
            text = f"{self._unwritten} bytes of answers wait for this client to read them: ask again"
            data = ticket.reply(codes.FLOW_CONTROL, remark=text)
            self._facts.refused("remoting", ErrorCode.RATE.value)
        self._unwritten += len(data)
        self._out.append(data)
        return given

    def _answered(self, ticket: Ticket) -> None:
        if not ticket.oneway:
            self._open -= 1
            if not self.reading and self._open < self._facts.config.requests_max:
                self.reading = True

    def _refusal(self, ticket: Ticket, event: Refused) -> bytes:
        failure = event.failure
        if failure.code is ErrorCode.FLUSH_TIMEOUT and ticket.code in SENDS:
            return send.unsure(self._client, ticket, failure.text)
        return ticket.reply(response_code(failure, ticket.code), remark=failure.text or failure.code.value)

    def outgoing(self) -> Sequence[bytes]:
        """Reply frames, in the order of the answers."""
        out = self._out
        if out:
            self._out = []
            self._unwritten = 0
        return out if self._spaces is None else [self._spaces.outward(each) for each in out]

    def deadline(self) -> int | None:
        """When the frame that has begun must be complete, or when silence ends the connection; at once when leases go back."""
        if self.closed:
            return None
        if self._owed:
            return 0
        idle = self._active_ns + self._facts.config.idle_seconds * SECOND_NS
        if self._decoder.held:
            return min(idle, self._began_ns + self._facts.config.frame_seconds * SECOND_NS)
        return idle

    def expire(self, now: int) -> Sequence[Command]:
        """Leases that go back; a close when a deadline has passed."""
        due = self.deadline()
        if due is None or now < due:
            return ()
        if self._owed:
            owed, self._owed = self._owed, []
            for command in owed:
                command.principal = GATEWAY
            return owed
        return self._close(FRAME_TIMEOUT if self._decoder.held else IDLE)

    def _close(self, reason: str) -> Sequence[Command]:
        self.closed = True
        self.reading = False
        self._client.stand("")
        return (Disconnected(reason),)
