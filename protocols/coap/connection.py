"""One connection of CoAP over TCP, TLS or WebSockets (RFC 8323).

NEW --CSM--> OPEN --Release of the peer, drain--> RELEASED --last response--> closed
 | 10 s, another message first: Abort     | fault: Abort     | end of stream, Abort of the peer
 v                                        v                  v
closed                                  closed             closed
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from domain import limits
from domain.client.mqtt_session import AccessRevoked, ReadingResumed
from domain.command import Command, Disconnected
from domain.event import Event
from domain.limits import SECOND_NS
from protocols.adapter import Peer
from protocols.coap.blockwise import upload
from protocols.coap.exchange.exchange import Exchange
from protocols.coap.message import message, signal
from protocols.coap.message.frame import Frame, Framing
from protocols.coap.message.message import Pairs
from protocols.coap.message.signal import Capabilities
from protocols.coap.oscore.guard import Guard
from protocols.coap.resources.resource import Resources
from protocols.coap.responses import Responses
from protocols.coap.rights import Rights
from protocols.coap.stream.stream_replier import StreamNotifier, StreamReplier
from protocols.coap.stream.streams import Streams
from protocols.host_shares import UNCOUNTED_BYTES_MAX, HostShare
from protocols.upload import Upload

PONG_NS: Final = 30 * SECOND_NS
"""Longest silence of a peer after a Ping."""
PINGS_MAX: Final = 16
"""Pings with Custody that may wait for earlier requests; further ones are answered without Custody."""
READS_MAX: Final = 32
"""Requests for values in execution at once, per connection: each response may be large."""
UNWRITTEN_BYTES: Final = 1024 * 1024
"""Bytes waiting to be written above which the connection starts no request."""
OPTION_ROOM: Final = 512
"""Bytes of a message reserved for the options of a response."""


@final
class CoapConnection:
    """A `protocols.adapter.Connection` with at most `requests_stream_max` requests in execution.

    _active_ns  monotonic ns of the last bytes from the peer
    _eof        True: the peer has sent all, behind the messages that wait
    _frame_ns   monotonic ns of the begin of the incomplete message
    _held       True: received messages wait until fewer requests are in execution
    _pings      (number of the last request before it, token) of Pings with Custody, in order
    _rest       True: more notifications are encoded in the next turn
    _serial     number of the last request; it replaces the message id of UDP
    """

    __slots__ = (
        "_active_ns", "_born_ns", "_capabilities", "_eof", "_frame_ns", "_framing", "_guard", "_held", "_notifier", "_now",
        "_open", "_outcomes", "_pinged", "_pings", "_released", "_remote", "_replier", "_requests_max", "_resources",
        "_rest", "_rights", "_serial", "_streams", "_unread", "_upload", "closed", "reading",
    )  # fmt: skip

    def __init__(self, streams: Streams, framing: Framing, peer: Peer, now: int) -> None:
        self._streams = streams
        self._framing = framing
        self._rights = Rights(streams.setting.authority)
        self._remote = streams.remote(peer)
        self._replier = StreamReplier(streams, framing, signal.MESSAGE_BYTES)
        self._outcomes = Responses(
            streams.config, self._replier, streams.observations, streams.pinned, streams.setting.wall_ms
        )  # fmt: skip
        self._notifier = StreamNotifier(self._replier, self._outcomes, streams.observations)
        self._resources = Resources(self._replier, self._outcomes, _identity)
        self._guard = Guard(streams.associations, self._outcomes, streams.known)
        self._capabilities = Capabilities()
        self._upload = Upload(streams.setting.uploads, peer.host)
        self._unread = HostShare(streams.setting.unread, peer.host)
        self._pings: deque[tuple[int, bytes]] = deque()
        self._requests_max = streams.config.requests_stream_max
        self._held = False
        self._eof = False
        self._rest = False
        self._released = False
        self._pinged = False
        self._open = False
        self._serial = 0
        self._born_ns = self._active_ns = self._frame_ns = self._now = now
        self.reading = True
        self.closed = False
        self._replier.write(signal.CSM, b"", signal.capabilities(streams.config.message_bytes_max), b"")

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Decode bytes from the peer (over WebSockets one message) and return their commands; b"" is end of stream."""
        if self.closed:
            return ()
        self._now = now
        if not data:
            self._eof = True
            return () if self._held else self._end_of_stream()
        framing = self._framing
        if not framing.unfinished:
            self._frame_ns = now
        self._active_ns = now
        self._pinged = False
        framing.feed(data)
        return self._take_messages(now)

    def _take_messages(self, now: int) -> Sequence[Command]:
        """Execute received messages while there is room for requests; the others wait for responses."""
        framing = self._framing
        commands: list[Command] = []
        self._held = False
        while not self.closed:
            if not self._has_room:
                self._held = True
                break
            frame = framing.take()
            if frame is None:
                break
            self._frame_ns = now
            commands += self._message(frame, now)
        if framing.fault and not self.closed:
            commands += self._abort(self._unopened() or framing.fault, "no-csm" if self._unopened() else "malformed")
        if not self.closed and (self._upload.size or framing.unfinished > UNCOUNTED_BYTES_MAX):
            self._await_room(now)
        self._streams.sweep(now)
        self._after()
        if self._eof and not self._held and not self.closed:
            commands += self._end_of_stream()
        return commands

    @property
    def unhandled(self) -> bool:
        """True while received messages wait for room."""
        return self._held and not self.closed

    def _end_of_stream(self) -> Sequence[Command]:
        return self._end("cut-short" if self._framing.unfinished else "end-of-stream")

    def answer(self, event: Event, now: int) -> None:
        """Queue the response or the notification for an event."""
        if self.closed:
            return
        self._now = now
        if isinstance(event, AccessRevoked):
            self._replier.write(signal.ABORT, b"", b"", event.failure.text.encode())
            return
        if isinstance(event, ReadingResumed):
            self._active_ns = self._frame_ns = now
            return
        self._resources.answered(event, now)
        self._after()

    def outgoing(self) -> Sequence[bytes]:
        """Take encoded messages: responses and signals, then at most NOTIFIED_BYTES of notifications."""
        replier = self._replier
        self._rest = self._notifier.notify(self._now)
        out, replier.out = replier.out, []
        replier.unwritten = 0
        self._unread.release()
        return out

    def drain(self, now: int) -> Sequence[Command]:
        """Send Release, since the node stops; the connection closes after the last response (section 5.5)."""
        self._now = now
        if not self.closed:
            self._replier.write(signal.RELEASE, b"", b"", b"")
            return self._release("shutting-down")
        return ()

    def deadline(self) -> int | None:
        """Monotonic ns at which the CSM, an incomplete message or a Pong is overdue, or a Ping is due; 0: commands wait."""
        if self.closed:
            return None
        if self._outcomes.later or self._rest or (self._held and self._has_room):
            return 0
        if self._upload.retry_ns:
            return self._upload.retry_ns
        if not self._open:
            return self._born_ns + limits.HANDSHAKE_NS
        due = self._active_ns + self._streams.config.idle_seconds * SECOND_NS + (PONG_NS if self._pinged else 0)
        return min(due, self._frame_ns + limits.FRAME_NS) if self._framing.unfinished else due

    def expire(self, now: int) -> Sequence[Command]:
        """Return commands of an earlier turn; send a due Ping, or Abort when the peer is overdue."""
        self._now = now
        due = self.deadline()
        if due is None or now < due:
            return ()
        self._rest = False
        if due == 0:
            later = self._outcomes.take_later()
            self._rights.give_later(later)
            return [*later, *self._take_messages(now)] if self._held else later
        if self._upload.retry_ns:
            self._await_room(now)
        elif not self._open:
            return self._abort("no CSM has come in time", "handshake-timeout")
        elif self._framing.unfinished:
            return self._abort("a message has not come in time", "frame-timeout")
        elif self._pinged:
            return self._abort("nothing has come after a Ping", "keep-alive")
        else:
            self._pinged = True
            self._replier.write(signal.PING, b"", b"", b"")
        return ()

    # Messages

    def _message(self, frame: Frame, now: int) -> Sequence[Command]:
        code = frame.code
        found = message.split(frame.rest, 0)
        if code != signal.CSM and self._unopened():
            return self._abort(self._unopened(), "no-csm")
        if found is None or found[1] == len(frame.rest) - 1:
            return self._abort("a message has malformed options, or a marker without payload", "malformed")
        pairs, end = found
        if signal.is_signal(code):
            return self._signal(code, frame.token, pairs, now)
        if not 0 < code < 32:
            # Empty messages are ignored (section 3.4), and so are responses: the server sends no requests.
            self._streams.count("ignored")
            return ()
        raw = frame.rest[:end]
        options = self._streams.known.by_bytes.get(raw)
        if options is None:
            options = self._streams.known.decode(pairs, raw)
        self._serial += 1
        exchange = Exchange(self._remote, True, code, self._serial, frame.token, options)
        self._replier.begin(exchange)
        return self._request(exchange, frame.rest[end + 1 :], now)

    @property
    def _has_room(self) -> bool:
        """True when one more request may start."""
        replier = self._replier
        return len(replier.open) < self._requests_max and replier.reads < READS_MAX and replier.unwritten <= UNWRITTEN_BYTES

    def _unopened(self) -> str:
        """Error text for a message before the CSM; "" after the CSM."""
        return "" if self._open else "the first message is not a CSM"

    def _request(self, exchange: Exchange, payload: bytes, now: int) -> Sequence[Command]:
        options = exchange.options
        if options.fault is not None:
            self._outcomes.fault(exchange, options.fault, now)
            return ()
        opened: Sequence[Command] = ()
        if options.oscore is not None:
            found = self._guard.open(exchange, payload, now)
            if found is None:
                return ()
            payload, opened = found
        body = upload.assemble(self._streams.assemblies, self._outcomes, exchange, payload, now)
        if body is None:
            return opened
        commands = self._resources.handle(exchange, body, now)
        self._rights.give(commands, self._remote, exchange.proof)
        return [*opened, *commands] if opened else commands

    def _signal(self, code: int, token: bytes, pairs: Pairs, now: int) -> Sequence[Command]:
        if code == signal.ABORT:
            return self._end("aborted-by-peer")
        bad = signal.critical(pairs)
        if bad:
            options = message.join([(signal.BAD_CSM_OPTION, message.uint(bad))]) if code == signal.CSM else b""
            return self._abort(f"option {bad} is critical and not known here", "signal-option", options)
        if code == signal.CSM:
            self._open = True
            self._capabilities.apply(pairs)
            most = self._replier.message_bytes_max = self._capabilities.message_bytes_max
            self._remote.whole_bytes = max(0, min(most, self._streams.config.message_bytes_max) - OPTION_ROOM)
            self._remote.bert = self._capabilities.bert
        elif code == signal.PING:
            custody = any(number == signal.CUSTODY for number, _ in pairs)
            if custody and self._replier.open and len(self._pings) < PINGS_MAX:
                self._pings.append((self._serial, token))
            else:
                self._pong(token, custody and not self._replier.open)
        elif code == signal.RELEASE:
            return self._release("goodbye")
        return ()

    def _pong(self, token: bytes, custody: bool) -> None:
        """Send a Pong. `custody`: all requests before the Ping have been answered (section 5.4)."""
        options = message.join([(signal.CUSTODY, b"")]) if custody else b""
        self._replier.write(signal.PONG, token, options, b"")

    def _after(self) -> None:
        """Update the connection after settled requests: send Pongs with Custody, close after Release, set `reading`."""
        ready = self._streams.observations.ready
        if ready:
            self._notifier.ready.extend(ready)
            ready.clear()
        if self.closed:
            return
        replier = self._replier
        while self._pings and not (replier.open and next(iter(replier.open)).mid <= self._pings[0][0]):
            self._pong(self._pings.popleft()[1], True)
        if replier.unwritten > UNCOUNTED_BYTES_MAX:
            self._unread.hold(replier.unwritten)
        if self._released and not replier.open:
            self._leave()  # the shell reports the end to the node
        self.reading = (
            not self.closed and not self._released and not self._upload.retry_ns and not self._held and self._has_room
        )

    def _await_room(self, now: int) -> None:
        """Charge the incomplete message to the budget of uploads; reading pauses until there is room."""
        waited = self._upload.retry_ns > 0
        if self._upload.begin(self._framing.unfinished, now) and waited:
            self._active_ns = self._frame_ns = now  # the pause was the node's, not the peer's
        self.reading = not self._upload.retry_ns

    # The end

    def _release(self, reason: str) -> Sequence[Command]:
        """Take no more requests; close after the last response."""
        self._released = True
        self.reading = False
        if self._replier.open:
            return ()
        return self._end(reason)

    def _abort(self, why: str, word: str, options: bytes = b"") -> Sequence[Command]:
        """Send Abort with the reason, and close (section 5.6). `word`: the reason that is counted."""
        self._replier.write(signal.ABORT, b"", options, why.encode())
        return self._end(word)

    def _end(self, reason: str) -> Sequence[Command]:
        self._leave()
        return (Disconnected(reason),)

    def _leave(self) -> None:
        """End the observations of the peer, and release its bodies and its share of uploads."""
        self.closed = True
        self.reading = False
        for observation in self._streams.observations.all_of(self._remote):
            self._streams.observations.remove(observation)
        self._notifier.ready.clear()
        self._streams.assemblies.leave(self._remote.key)
        self._upload.end()


def _identity(exchange: Exchange) -> str:
    """Identity of the principal: requests of one connection with one security context have the same one."""
    return f"{exchange.remote.key}:{exchange.owner[1].decode()}"
