"""PUBLISH from the client: batched into Send commands, and acknowledged in the order of arrival (MQTT 5, 4.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.client.mqtt_session import ReleasePacketIds, SendOnce
from domain.command import Command, Send
from domain.errors import Failure
from domain.limits import BODY_BYTES_MAX
from domain.message.message import Message
from protocols.adapter import ignore_refusal
from protocols.mqtt import property as props
from protocols.mqtt import status
from protocols.mqtt.handshake import Terms
from protocols.mqtt.output import REFUSED, Output
from protocols.mqtt.property import NONE, PUBACK, PUBCOMP, PUBREC
from protocols.mqtt.publish import Ack, Publish, acks, encode_ack
from protocols.mqtt.settings import MqttSettings
from protocols.mqtt.translate import Route, content, is_too_large, message, plain_message, route
from protocols.mqtt.wire import V5, PacketError

ROUTES_MAX: Final = 1_024
MESSAGE_BYTES: Final = 256
"""Approximate bytes of memory that a message takes besides its body."""
REFUSALS: Final = {
    0x83: "deliverytime is RFC 3339 or epoch milliseconds, at most 366 days ahead",
    0x97: "the properties are too many to be stored: 31,743 bytes in all",
    0x99: "the payload is not the UTF-8 that it claims to be",
}
"""Reason code -> reason string of refusals that concern one message only: the connection stays open."""


@final
class Run:
    """Messages of one topic that were read together and are sent as one command. It is the ticket of that command.

    topic        the stored topic of the messages
    kind         packet type of the acknowledgements: PUBACK or PUBREC
    messages     the messages; empty once they are answered
    packet_ids   packet identifier of each message; 0 for a QoS 0 message in a PUBACK run
    size         bytes that the messages count for in `Inbound.pending_bytes`
    code         reason code of the answer; -1 while there is none
    words        reason string of a refusal
    """

    __slots__ = ("code", "kind", "messages", "packet_ids", "size", "topic", "words")

    def __init__(self, topic: str, kind: int) -> None:
        self.topic = topic
        self.kind = kind
        self.messages: list[Message] = []
        self.packet_ids: list[int] = []
        self.size = 0
        self.code = -1
        self.words = ""


@final
class ReleaseBatch:
    """PUBREL packets that were read together; the ticket of their ReleasePacketIds."""

    __slots__ = ("packet_ids",)

    def __init__(self, packet_ids: list[int]) -> None:
        self.packet_ids = packet_ids


@final
class Inbound:
    """The PUBLISH packets of one connection's client, from decoding to acknowledgement.

    pending_bytes   bytes of the messages that were sent to the gateway and not answered yet
    """

    def __init__(
        self,
        config: MqttSettings,
        output: Output,
        terms: Terms,
        born_host: bytes,
        wall_ms: Callable[[], int],
        refused: Callable[[str, str], None] = ignore_refusal,
    ) -> None:
        self._refused = refused
        self._config = config
        self._output = output
        self._terms = terms
        self._client_id = terms.client_id
        self._version = terms.version
        self._qos_max = config.qos_max
        self._retains = config.retain_available
        self._born_host = born_host
        self._wall_ms = wall_ms
        self._aliases: dict[int, bytes] = {}
        self._routes: dict[bytes, Route] = {}
        self._run: Run | None = None
        self._runs: list[Run] = []
        self._released: list[int] = []
        self._in_flight_qos1 = 0
        # An empty dict takes a third of the memory of an empty set, and every idle connection has one.
        self._in_flight_qos2: dict[int, None] = {}
        self.pending_bytes = 0

    def publish(self, packet: Publish, commands: list[Command]) -> None:
        """Add one PUBLISH to the current run, or refuse it. Raises PacketError when the client has broken the protocol."""
        qos = packet.qos
        topic = packet.topic
        if qos > self._qos_max:
            raise PacketError(0x9B, f"a PUBLISH with QoS {qos}, at most {self._qos_max} is taken")
        if packet.retain and not self._retains:
            raise PacketError(0x9A, "a PUBLISH that is to be retained")
        if packet.properties is not NONE:
            topic = self._topic_of(packet)
        elif not topic:
            raise PacketError(0x82 if self._version == V5 else 0x90, "an empty topic name")
        where = self._routes.get(topic)
        if where is None:
            where = self._route_of(topic)
        if qos:
            self._count_in_flight(packet)
        if len(packet.body) > BODY_BYTES_MAX:
            raise PacketError(0x95, f"a payload of {len(packet.body)} bytes, {BODY_BYTES_MAX} are allowed")
        refusal = where.refusal
        brought = None
        # Most messages have no properties and are no JSON objects: their payloads are not looked at.
        if packet.properties is not NONE or (self._version != V5 and packet.body[:1] == b"{"):
            try:
                brought = content(packet.properties, packet.body, self._version, self._wall_ms())
            except PacketError as fault:
                if fault.code not in REFUSALS:
                    raise
                refusal = fault.code
        if refusal:
            self._refuse(packet, refusal, commands)
            return
        if brought is None:
            sent = plain_message(where, packet.body, qos, packet.retain, self._born_host)
        else:
            sent = message(where, brought, qos, packet.retain, self._born_host)
        if is_too_large(sent):
            self._refuse(packet, 0x97, commands)
            return
        kind = PUBREC if qos == 2 else PUBACK
        run = self._run
        if run is None or run.topic != where.topic or run.kind != kind:
            self.flush(commands)
            run = self._run = Run(where.topic, kind)
        run.messages.append(sent)
        run.packet_ids.append(packet.packet_id)
        run.size += MESSAGE_BYTES + len(packet.body)

    def _topic_of(self, packet: Publish) -> bytes:
        """The topic name of a PUBLISH with properties, its topic alias resolved (3.3.2.3.4). Raises PacketError."""
        if packet.properties.subscription_ids:
            raise PacketError(0x82, "a subscription identifier from a client")
        alias = packet.properties.numbers.get(props.TOPIC_ALIAS)
        if alias is None:
            if not packet.topic:
                raise PacketError(0x82, "an empty topic name")
            return packet.topic
        if not 0 < alias <= self._config.topic_alias_maximum:
            raise PacketError(0x94, f"topic alias {alias}")
        if packet.topic:
            self._aliases[alias] = packet.topic
            return packet.topic
        known = self._aliases.get(alias)
        if known is None:
            raise PacketError(0x82, f"topic alias {alias} stands for nothing")
        return known

    def _route_of(self, topic: bytes) -> Route:
        where = route(topic, self._client_id)
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        self._routes[topic] = where
        return where

    def _count_in_flight(self, packet: Publish) -> None:
        """Count a message in flight. PacketError 0x93 above the Receive Maximum that CONNACK has set (3.3.4)."""
        if packet.qos == 2:
            if packet.packet_id in self._in_flight_qos2:
                return
            self._in_flight_qos2[packet.packet_id] = None
        else:
            self._in_flight_qos1 += 1
        if self._version == V5 and self._in_flight_qos1 + len(self._in_flight_qos2) > self._config.receive_maximum:
            raise PacketError(0x93, f"more than {self._config.receive_maximum} unfinished messages")

    def _refuse(self, packet: Publish, code: int, commands: list[Command]) -> None:
        """Refuse one message without a command; its acknowledgement keeps its place in the order.

        Raises PacketError below 5.0, which cannot refuse a PUBLISH, unless `accept_refused_publish` is set.
        """
        if packet.qos == 0:
            self._refused("mqtt", status.PUBLISHES[code])
            self._output.lose(REFUSED, 1)
            return
        if self._version != V5 and not self._config.accept_refused_publish:
            raise PacketError(code, "the message was refused")
        self._refused("mqtt", status.PUBLISHES[code])
        self.flush(commands)
        run = Run("", PUBREC if packet.qos == 2 else PUBACK)
        run.packet_ids.append(packet.packet_id)
        run.words = REFUSALS.get(code, "the topic name is not for clients")
        self._runs.append(run)
        self._settle(run, code)

    def release(self, packet_id: int) -> None:
        """Add one PUBREL to those of this read."""
        self._released.append(packet_id)

    def flush(self, commands: list[Command]) -> None:
        """Append the commands for the current run and for the PUBRELs of this read."""
        run = self._run
        if run is not None:
            self._run = None
            self.pending_bytes += run.size
            if run.kind == PUBREC:
                self._runs.append(run)
                commands.append(SendOnce(run, run.messages, run.packet_ids))
            elif any(run.packet_ids):
                self._runs.append(run)
                commands.append(Send(run, run.messages))
            else:
                self.pending_bytes -= run.size
                commands.append(Send(run, run.messages, wait=False))
        if self._released:
            commands.append(ReleasePacketIds(ReleaseBatch(self._released), self._released))
            self._released = []

    def _settle(self, run: Run, code: int) -> None:
        run.code = code
        runs = self._runs
        done = 0
        while done < len(runs) and runs[done].code >= 0:
            done += 1
        if done:
            ready = runs[:done]
            del runs[:done]
            for each in ready:
                self._acknowledge(each)

    def stored(self, run: Run) -> None:
        """The messages of `run` are stored: acknowledge them."""
        self._end(run, 0)

    def refused(self, run: Run, failure: Failure) -> tuple[int, str, str] | None:
        """The messages of `run` were refused: acknowledge them so, or end the connection.

        Returns reason code, reason string and word for the end, where no acknowledgement can carry the failure.
        """
        if self._version != V5 and not self._config.accept_refused_publish:
            return status.WORDS[failure.code].publish, failure.text, status.REFUSED_PUBLISH
        code = status.disconnect_code(failure, any(run.packet_ids)) if self._version == V5 else 0
        if code:
            return code, failure.text, ""
        run.words = failure.text
        unanswerable = run.packet_ids.count(0)
        if unanswerable:
            self._output.lose(REFUSED, unanswerable)
        self._end(run, status.publish_code(failure))
        return None

    def _end(self, run: Run, code: int) -> None:
        self.pending_bytes -= run.size
        run.messages = []
        self._settle(run, code)

    def _acknowledge(self, run: Run) -> None:
        packet_ids = run.packet_ids
        if run.kind == PUBACK:
            if 0 in packet_ids:
                packet_ids = [packet_id for packet_id in packet_ids if packet_id]
            self._in_flight_qos1 -= len(packet_ids)
        elif run.code >= 0x80:
            self._forget(packet_ids)
        if run.code and self._version == V5:
            why = self._terms.reason_string(run.words)
            for packet_id in packet_ids:
                self._output.put(encode_ack(Ack(run.kind, packet_id, run.code, why), V5))
        else:
            self._output.put(acks(run.kind, packet_ids))

    def _forget(self, packet_ids: list[int]) -> None:
        for packet_id in packet_ids:
            self._in_flight_qos2.pop(packet_id, None)

    def released(self, releases: ReleaseBatch, known: list[bool]) -> None:
        """Send PUBCOMP for each PUBREL; in 5.0 with 0x92 for a packet identifier that was not in use."""
        self._forget(releases.packet_ids)
        if self._version != V5 or all(known):
            self._output.put(acks(PUBCOMP, releases.packet_ids))
            return
        for packet_id, there in zip(releases.packet_ids, known, strict=True):
            self._output.put(encode_ack(Ack(PUBCOMP, packet_id, 0 if there else 0x92), V5))
