"""Producers of every protocol, one message after the other; a message whose answer is lost is not sent again.

So every body is stored at most once: more than once, or not at all though it was acknowledged, is the node's fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from domain.limits import MILLISECOND_NS, MQTT_PACKET_BYTES_MAX
from domain.message import property as properties
from domain.ports import Clock, Timer
from protocols.coap.message import message as coap
from protocols.coap.message import option as coap_option
from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.connect import Connack, Connect
from protocols.mqtt.packet import Decoder, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Ack, Publish
from protocols.remoting.wire import frame
from tests.simulation.channel import Channel
from tests.simulation.ledger import Ledger
from tests.simulation.sdk import SEND

V311 = 4
ANSWER_MS = 8_000
"""An answer that takes longer is taken for lost."""


class Net(Protocol):
    """Where a node can be reached: the simulated one, or a real process."""

    seed: int
    ledger: Ledger

    @property
    def clock(self) -> Clock:
        """The clock of the clients."""

    def dial(self, protocol: str, party: Any) -> None:
        """Connect `party`."""


class Poster:
    """Sends `count` messages to `topic`. Subclasses say how: `opened`, `post`, and they call `answered`.

    link       what sends the client's bytes, None without a connection
    pause_ms   pause between an answer and the next message, at most
    """

    protocol = ""
    pause_ms = 120

    def __init__(self, net: Net, name: str, topic: str, count: int) -> None:
        self.net, self.name, self.topic = net, name, topic
        self.chance = random.Random(f"{net.seed} {name}")
        self.left = count
        self.link: Any = None
        self._number = 0
        self._asked = ""
        self._timer: Timer | None = None

    @property
    def done(self) -> bool:
        """All messages were sent, and answered or given up."""
        return self.left == 0 and not self._asked

    def start(self) -> None:
        """Connect now, or as soon as the node is up."""
        self.net.dial(self.protocol, self)

    def connected(self, link: Any) -> None:
        self.link = link
        self.opened()

    def lost(self) -> None:
        self.link = None
        self._give_up()
        self._later(self.chance.randrange(1, 200), self.start)

    def received(self, data: bytes) -> None:
        raise NotImplementedError

    def opened(self) -> None:
        """The connection is there: say what has to be said first, then `next`."""
        self.next()

    def post(self, body: bytes) -> None:
        """Send one message."""
        raise NotImplementedError

    def next(self) -> None:
        """Send the next message."""
        if self.link is None or self._asked or not self.left:
            return
        self.left -= 1
        self._number += 1
        self._asked = f"{self.name}/{self._number}"
        self.net.ledger.sent[self._asked] = 1
        serial = self._number
        self._timer = self._later(ANSWER_MS, lambda: self._overdue(serial))
        self.post(self._asked.encode() + b"." * self.chance.randrange(300))

    def answered(self, stored: bool) -> None:
        """The answer to the last message has come."""
        if stored and self._asked:
            self.net.ledger.acknowledged[self._asked] = self.net.clock.monotonic_ns()
            self.net.ledger.note(f"{self.net.clock.monotonic_ns()} {self.name} sent {self._asked}")
        self._give_up()
        self._later(self.chance.randrange(1, self.pause_ms), self.next)

    def _give_up(self) -> None:
        self._asked = ""
        if self._timer is not None:
            self._timer.cancel()

    def _overdue(self, serial: int) -> None:
        if serial == self._number and self._asked:
            self.answered(False)

    def _later(self, milliseconds: int, call: Callable[[], None]) -> Timer:
        return self.net.clock.call_at(self.net.clock.monotonic_ns() + milliseconds * MILLISECOND_NS, call)


class RemotingPoster(Poster):
    """SEND_MESSAGE_V2. `queue`: of its messages, "-1": the node chooses."""

    protocol = "remoting"
    queue = "-1"

    def properties(self) -> list[tuple[str, str]]:
        """Properties of the next message."""
        return [("UNIQ_KEY", self._asked)]

    def opened(self) -> None:
        self._decoder = frame.FrameDecoder()
        self.next()

    def post(self, body: bytes) -> None:
        stored = properties.encode(self.properties()).decode()
        fields = {
            "a": "sim", "b": self.topic, "c": "TBW102", "d": "4", "e": self.queue, "f": "0", "g": "1", "h": "0", "i": stored,
            "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        self.link.send(frame.encode(SEND, self._number, fields=fields, body=body))

    def received(self, data: bytes) -> None:
        for answer in self._decoder.feed(data):
            if answer.opaque == self._number:
                self.answered(answer.code == 0)


class MqttPoster(Poster):
    """PUBLISH at QoS 1 with a clean session, to `<topic>/<name>`."""

    protocol = "mqtt"

    def opened(self) -> None:
        self._decoder = Decoder(MQTT_PACKET_BYTES_MAX, V311, client=True)
        self.link.send(encode(Connect(V311, self.name, True, 60, None, None, None, NONE), V311))

    def post(self, body: bytes) -> None:
        topic = f"{self.topic}/{self.name}".encode()
        self.link.send(encode(Publish(topic, body, 1, False, False, self._number % 65_535 + 1, NONE), V311))

    def received(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            if isinstance(packet, Connack):
                self.next()
            elif isinstance(packet, Ack) and packet.packet_id == self._number % 65_535 + 1:
                self.answered(True)


class HttpPoster(Poster):
    """POST of the body, answered 201. `target`: the path."""

    protocol = "http"
    target = "/v1/topics/{topic}/messages"
    fields = ""

    def opened(self) -> None:
        self._data = b""
        self.next()

    def post(self, body: bytes) -> None:
        target = self.target.format(topic=self.topic)
        fields = self.fields.format(name=self._asked)
        head = f"POST {target} HTTP/1.1\r\nhost: sim\r\ncontent-length: {len(body)}\r\n{fields}\r\n"
        self.link.send(head.encode() + body)

    def _overdue(self, serial: int) -> None:
        """Nothing names what an answer belongs to: one that is late would be taken for the next message's."""
        if serial == self._number and self._asked and self.link is not None:
            self.link.reset()

    def received(self, data: bytes) -> None:
        self._data += data
        head, end, content = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        sizes = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        size = int(sizes[0]) if sizes else 0
        if len(content) >= size:
            self._data = content[size:]
            self.answered(head.split(b" ", 2)[1] in (b"200", b"201", b"204"))


class EventPoster(HttpPoster):
    """A CloudEvent in binary mode."""

    target = "/ce/{topic}"
    fields = (
        "ce-specversion: 1.0\r\nce-id: {name}\r\nce-source: /sim\r\nce-type: sim.sent\r\n"
        "content-type: application/octet-stream\r\n"
    )


class GrpcPoster(Channel, Poster):
    """SendMessage of RocketMQ's gRPC protocol."""

    def __init__(self, net: Net, name: str, topic: str, count: int) -> None:
        Poster.__init__(self, net, name, topic, count)
        settings = pb.Settings(client_type=pb.PRODUCER)
        settings.publishing.topics.add(name=topic)
        self._stream = 0
        self._begun = False
        Channel.__init__(self, net, name, settings)  # type: ignore[arg-type]

    def start(self) -> None:
        """The channel has connected already."""
        self._begun = True
        self.next()

    def connected(self, link: Any) -> None:
        Channel.connected(self, link)
        if self._begun:
            self.next()

    def lost(self) -> None:
        self._give_up()
        Channel.lost(self)

    def post(self, body: bytes) -> None:
        message = pb.Message(body=body)
        message.topic.name = self.topic
        message.system_properties.message_id = f"{self.name}{self._number:08}"
        message.system_properties.message_type = pb.NORMAL
        message.system_properties.body_encoding = pb.IDENTITY
        message.system_properties.born_timestamp.FromMilliseconds(self.net.clock.wall_ms())
        message.system_properties.born_host = "sim"
        self._stream = self._open("SendMessage")
        self._put(self._stream, pb.SendMessageRequest(messages=[message]), end=True)
        self._flush()

    def received(self, data: bytes) -> None:
        Channel.received(self, data)
        if self._stream in self._ended:
            self._ended.discard(self._stream)
            pieces = self._take(self._stream)
            self.answered(bool(pieces) and pb.SendMessageResponse.FromString(pieces[0]).status.code == pb.OK)


class CoapPoster(Poster):
    """POST of a confirmable request, which is not repeated."""

    protocol = "coap"

    def post(self, body: bytes) -> None:
        options = coap.join([(coap_option.URI_PATH, b"mq"), (coap_option.URI_PATH, self.topic.encode())])
        token = self._number.to_bytes(4, "big")
        self.link.send(coap.encode(coap.CON, coap.POST, self._number & 0xFFFF, token, options, body))

    def received(self, data: bytes) -> None:
        packet = coap.decode(data)
        assert packet is not None
        if packet.kind == coap.CON:
            self.link.send(coap.empty(coap.ACK, packet.mid))
        if packet.code != coap.EMPTY and packet.token == self._number.to_bytes(4, "big"):
            self.answered(packet.code in (coap.CREATED, coap.CHANGED))


POSTERS = (RemotingPoster, GrpcPoster, MqttPoster, HttpPoster, EventPoster, CoapPoster)
