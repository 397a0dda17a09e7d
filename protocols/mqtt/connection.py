"""One MQTT connection: its state machine, and the commands for its packets.

    NEW --CONNECT--> ATTACHING --Attached--> OPEN --goodbye, fault, deadline, take-over--> ENDING --> closed
     +--CONNECT with a method--> PROVING --AUTH--^

Packets that arrive while ATTACHING are kept until Attached, and so is the end of the stream behind them: a client need not
wait for CONNACK (3.1.4), nor stay for it. In ENDING the connection reads nothing: it writes its last bytes, and the next
`expire`, which is due at once, returns `Disconnected`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.client.mqtt_session import (
    AcceptDeliveries,
    AccessRevoked,
    Attached,
    ConfirmDeliveries,
    Deliveries,
    DeliveriesAccepted,
    Detach,
    PacketIdsReleased,
    ReadingResumed,
    SessionTakenOver,
    Subscribed,
    Unsubscribed,
)
from domain.command import Command, Disconnected
from domain.errors import Failure
from domain.event import Done, Event, Refused, Sent
from domain.limits import FRAME_NS, HANDSHAKE_NS, SECOND_NS
from protocols.adapter import Peer
from protocols.host_shares import UNCOUNTED_BYTES_MAX
from protocols.mqtt import handshake, status, subscribe, subscriptions
from protocols.mqtt.access import ClientAuthentication, session_expiry_of
from protocols.mqtt.connect import Auth, Connect, Disconnect
from protocols.mqtt.goodbye import Goodbye
from protocols.mqtt.handshake import Terms
from protocols.mqtt.output import Output
from protocols.mqtt.packet import Decoder, Packet
from protocols.mqtt.property import PUBREC, PUBREL
from protocols.mqtt.publish import Ack, Publish, acks
from protocols.mqtt.send import Inbound, ReleaseBatch, Run
from protocols.mqtt.settings import MqttSettings
from protocols.mqtt.subscriptions import Unsubscribing
from protocols.mqtt.wire import V5, PacketError
from protocols.setting import Setting
from protocols.upload import Upload

NEW: Final = 0
PROVING: Final = 1
ATTACHING: Final = 2
OPEN: Final = 3
ENDING: Final = 4
PINGRESP: Final = b"\xd0\x00"


@final
class MqttConnection:
    """One connection of one client, as `protocols.adapter.Connection` describes it."""

    def __init__(self, setting: Setting, config: MqttSettings, peer: Peer, now: int, output: Output) -> None:
        self._config = config
        self._wall_ms = setting.wall_ms
        self._refused_here = setting.refused
        self._born_host = peer.born_host
        self._opened = self._last_packet_ns = now
        self._state, self._incomplete_since_ns = NEW, 0
        self._decoder = Decoder(config.packet_bytes_max)
        self._upload = Upload(setting.uploads, peer.host)
        self._output = output
        self._goodbye = Goodbye(config, self._decoder, self._output)
        self._authentication = ClientAuthentication(setting, config, peer, self._output)
        self._terms: Terms | None = None
        self._inbound: Inbound | None = None
        self._parks = False  # True: from ATTACHING on, until the packets that waited for Attached are handled
        self._waiting: list[Packet] = []
        self._waiting_fault: PacketError | None = None
        self._waiting_end = self._more = False
        self._pending: list[Command] = []
        self.reading, self.closed = True, False

    @property
    def unhandled(self) -> bool:
        """True while packets behind CONNECT wait for Attached. Without any, the end of the stream is not kept waiting."""
        return self._parks and (len(self._waiting) > 0 or self._waiting_fault is not None)

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Decode bytes from the client and return their commands; b"" is end of stream."""
        if self.closed or self._state == ENDING:
            return ()
        if not data:
            self._waiting_end = self.unhandled
            return () if self.unhandled else self._close(status.LOST)
        confirmed = self._decoder.pubacks(data) if self._state == OPEN and not self._parks else []
        if confirmed:
            self._last_packet_ns = now
            return (ConfirmDeliveries(confirmed, True),)
        packets = self._decoder.feed(data)
        fault = self._decoder.fault
        if self._decoder.incomplete:
            if packets or self._incomplete_since_ns == 0:
                self._incomplete_since_ns = now
        else:
            self._incomplete_since_ns = 0
        if self._upload.size or self._decoder.unfinished > UNCOUNTED_BYTES_MAX:
            self._await_room(now)
        if self._parks:
            self._waiting += packets
            self._waiting_fault = self._waiting_fault or fault
            return ()
        return self._handle(packets, fault, now)

    def answer(self, event: Event, now: int) -> None:
        """Queue the packets that an event of the gateway causes."""
        if self._state == ENDING or self.closed:
            return
        inbound = self._inbound
        if isinstance(event, Deliveries):
            self._output.deliver(event.items, self._wall_ms() if self._decoder.version == V5 else 0)
            if self._output.oversize:
                self._pending.append(self._output.rejected())
        elif isinstance(event, (Sent, Done)):
            if inbound is not None and isinstance(event.ticket, Run):
                inbound.stored(event.ticket)
                self._throttle()
            elif event.ticket is self._authentication:
                self._authentication.reauthenticated()
        elif isinstance(event, DeliveriesAccepted):
            self._output.put(acks(PUBREL, event.slots))
        elif isinstance(event, PacketIdsReleased):
            if inbound is not None and isinstance(event.ticket, ReleaseBatch):
                inbound.released(event.ticket, event.known)
        elif isinstance(event, (Subscribed, Unsubscribed)):
            self._output.put(subscriptions.response(event))
        elif isinstance(event, Attached):
            self._attached(event.session_present, now)
        elif isinstance(event, SessionTakenOver):
            self._close_later(0x8E, "the client has connected again")
        elif isinstance(event, Refused):
            self._refused(event.ticket, event.failure)
        elif isinstance(event, AccessRevoked):
            self._close_later(status.revoked_code(event.failure), event.failure.text, status.REVOKED)
        elif isinstance(event, ReadingResumed):
            self._last_packet_ns, self._incomplete_since_ns = now, now if self._incomplete_since_ns else 0

    def outgoing(self) -> Sequence[bytes]:
        """Take the bytes that are queued for the client, a part of them when compressed messages became large."""
        output = self._output
        if output.behind:
            output.encode_more(self._wall_ms())
            if output.oversize:
                self._pending.append(output.rejected())
            self._more = output.behind
        return output.drain()

    def deadline(self) -> int | None:
        """Monotonic ns of the handshake's limit, 1.5 keep-alives (3.1.2.10) or an incomplete packet's limit; 0: at once."""
        if self._pending or self._more:
            return 0
        retry_ns = self._upload.retry_ns
        if self._state < OPEN:
            return min(retry_ns or self._opened + HANDSHAKE_NS, self._opened + HANDSHAKE_NS)
        if retry_ns:
            return retry_ns
        if self._terms is not None and self._terms.keep_alive_s:
            return self._last_packet_ns + self._terms.keep_alive_s * 3 * SECOND_NS // 2
        return self._incomplete_since_ns + FRAME_NS if self._incomplete_since_ns else None

    def expire(self, now: int) -> Sequence[Command]:
        """Return pending commands and those of the packets that waited for Attached; end the connection after its deadline."""
        commands, self._pending = self._pending, []
        self._more = False  # the bytes that follow are taken at the end of this turn, or when the client has read
        if self._state == ENDING:
            self.closed = True
            return commands
        if self._parks and self._state == OPEN:
            self._parks = False
            waiting, self._waiting = self._waiting, []
            fault, self._waiting_fault = self._waiting_fault, None
            commands = [*commands, *self._handle(waiting, fault, now)]
            return [*commands, *self._close(status.LOST)] if self._waiting_end and self._state == OPEN else commands
        if 0 < self._upload.retry_ns <= now:
            self._await_room(now)
        if self._state < OPEN:
            return [*commands, *self._close(status.NO_CONNECT)] if now >= self._opened + HANDSHAKE_NS else commands
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return commands
        if not self.reading:
            # The node has stopped reading this client: its silence is not the client's fault.
            self._last_packet_ns = now
            return commands
        if self._terms is not None and self._terms.keep_alive_s:
            self._goodbye.send(0x8D, "nothing complete arrived within the keep-alive")
            return [*commands, *self._close(status.REASONS[0x8D])]
        self._goodbye.send(0x81, "a packet was not completed in time")
        return [*commands, *self._close(status.FRAME_DEADLINE)]

    def drain(self, now: int) -> Sequence[Command]:
        """The node stops: send DISCONNECT 0x8B, or 0x9C or 0x9D with a server reference (4.11, 4.13), and end."""
        if self._state == ENDING:
            return ()
        self._goodbye.stop()
        return self._close(status.REASONS[0x8B])

    def _await_room(self, now: int) -> None:
        """Count the incomplete packet with the unfinished requests. Nothing is read while there is no room for it."""
        waited = self._upload.retry_ns > 0
        if not self._upload.begin(self._decoder.unfinished, now):
            self.reading = False
        elif waited:  # its silence was not the client's
            self._last_packet_ns = self._incomplete_since_ns = now
            self._throttle()

    def _handle(self, packets: list[Packet], fault: PacketError | None, now: int) -> list[Command]:
        commands: list[Command] = []
        if packets:
            self._last_packet_ns = now
        try:
            self._handle_each(packets, commands)
            if self._inbound is not None:
                self._inbound.flush(commands)
                self._throttle()
            if fault is not None and self._state == ATTACHING:
                self._waiting_fault = fault
            elif fault is not None and not self.closed:
                raise fault
        except PacketError as broken:
            if self._inbound is not None:
                self._inbound.flush(commands)
            self._goodbye.fault(broken)
            commands += self._close(status.REASONS[broken.code])
        return commands

    def _handle_each(self, packets: list[Packet], commands: list[Command]) -> None:
        inbound = self._inbound
        confirmed: list[int] = []
        taken: list[int] = []
        for at, packet in enumerate(packets):
            if inbound is None:
                if self._connect(packet, commands):
                    self._waiting += packets[at + 1 :]
                    return
                continue
            if isinstance(packet, Publish):
                inbound.publish(packet, commands)
            elif isinstance(packet, Ack):
                if packet.kind == PUBREL:
                    inbound.release(packet.packet_id)
                elif packet.kind == PUBREC and packet.code < 0x80:
                    taken.append(packet.packet_id)
                else:
                    confirmed.append(packet.packet_id)
            else:
                inbound.flush(commands)
                if self._other(packet, commands):
                    break
        if confirmed:
            commands.insert(0, ConfirmDeliveries(confirmed))
        if taken:
            commands.insert(0, AcceptDeliveries(taken))

    def _other(self, packet: Packet, commands: list[Command]) -> bool:
        """Handle a packet that is neither PUBLISH nor an acknowledgement. True after DISCONNECT: later packets are ignored."""
        terms = self._terms
        if terms is None:
            return True
        if isinstance(packet, subscribe.Subscribe):
            asked = subscriptions.subscribe(packet, terms, self._config, self._refused_here)
            if isinstance(asked, bytes):
                self._output.put(asked)
            else:
                commands.append(asked)
        elif isinstance(packet, subscribe.Unsubscribe):
            commands.append(subscriptions.unsubscribe(packet, terms))
        elif isinstance(packet, Disconnect):
            expiry_s = session_expiry_of(packet, terms, self._config)
            commands += [Detach(packet.code != 0, expiry_s), *self._close(status.CLIENT_DISCONNECT, clean=True)]
            return True
        elif isinstance(packet, Auth):
            renew = self._authentication.reauthenticate(packet)
            if renew is not None:
                commands.append(renew)
        else:
            self._output.put(PINGRESP)
        return False

    def _connect(self, packet: Packet, commands: list[Command]) -> bool:
        """Handle CONNECT, and AUTH or DISCONNECT before CONNACK. The decoder lets only CONNECT be the first packet.

        True when later packets must wait for Attached, or are to be ignored.
        """
        authentication = self._authentication
        if isinstance(packet, Disconnect) and self._state == PROVING:
            commands += self._close(status.CLIENT_DISCONNECT, clean=True)
            return True
        attach = authentication.connect(packet) if isinstance(packet, Connect) else authentication.auth(packet)
        terms = authentication.terms
        if attach is None or terms is None:
            self._state = PROVING
            return False
        self._terms = terms
        self._inbound = Inbound(self._config, self._output, terms, self._born_host, self._wall_ms, self._refused_here)
        self._state = ATTACHING
        self._parks = True
        self.reading = False
        commands.append(attach)
        return True

    def _attached(self, present: bool, now: int) -> None:
        if self._terms is None or self._state != ATTACHING:
            return
        self._state, self._last_packet_ns = OPEN, now
        self._goodbye.accepted = True
        self._output.put(handshake.accepting_connack(self._terms, present, self._config, self._authentication.proof))
        if self.unhandled:
            # `expire` handles the packets that waited; a pending command makes it due at once.
            self._pending.append(ConfirmDeliveries([]))
        else:
            self._parks = False
            self.reading = self._upload.retry_ns == 0

    def _close(self, reason: str, clean: bool = False) -> list[Command]:
        self._state = ENDING
        self._upload.end()
        self.closed = True
        return [Disconnected(reason, clean)]

    def _close_later(self, code: int, words: str, reason: str = "") -> None:
        """End the connection in `answer`: the next `expire` returns the Disconnected."""
        self._goodbye.send(code, words)
        self._state = ENDING
        self._pending.append(Disconnected(reason or status.REASONS[code]))

    def _refused(self, ticket: object, failure: Failure) -> None:
        if isinstance(ticket, Run) and self._inbound is not None:
            end = self._inbound.refused(ticket, failure)
            if end is None:
                self._throttle()
            else:
                self._close_later(*end)
        elif isinstance(ticket, Unsubscribing):
            self._output.put(ticket.unsuback([0x83] * ticket.count, failure.text))
        elif isinstance(ticket, ReleaseBatch):
            self._close_later(0x83, failure.text)
        elif ticket is self._authentication and self._state == OPEN:
            self._close_later(0x87, failure.text)
        elif self._state == ATTACHING:
            code = status.connect_code(failure)
            self._goodbye.refuse(code, failure.text)
            self._state = ENDING
            self._pending.append(Disconnected(status.REASONS.get(code, "refused")))

    def _throttle(self) -> None:
        """Stop reading while packets wait, without room, or while more than `unanswered_bytes_max` bytes wait for the store."""
        few = self._inbound is None or self._inbound.pending_bytes <= self._config.unanswered_bytes_max
        self.reading = few and not self._parks and self._upload.retry_ns == 0
