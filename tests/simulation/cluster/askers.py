"""Clients that ask for positions, bounds and latest values by each protocol, and what none of them may see: an older answer."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from domain.limits import MILLISECOND_NS, MQTT_PACKET_BYTES_MAX
from protocols.coap.message import message as coap
from protocols.coap.message import option as coap_option
from protocols.mqtt.connect import Connack, Connect
from protocols.mqtt.packet import Decoder, encode
from protocols.mqtt.property import NONE
from protocols.mqtt.publish import Publish
from protocols.mqtt.subscribe import Subscribe
from protocols.remoting import codes
from protocols.remoting.wire import frame

if TYPE_CHECKING:
    from tests.simulation.cluster.readers import Readers

TOPIC: Final = "watched"
PATH: Final = f"{TOPIC}/value"
GROUP: Final = "watchers"
POSITION, END, VALUE = "position", "end", "latest value"
ANSWER_MS: Final = 3_000
"""An answer that takes longer is not waited for; it counts when it comes."""
ASKED_MAX: Final = 6
"""Questions on one connection, before the client connects to somebody else."""
V311: Final = 4


class Seen:
    """The greatest answers so far. All that is asked about only grows, so an answer is not below those before its question."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.newest: dict[str, int] = {}
        self.answers: dict[str, int] = {}
        self.faults: list[str] = []
        self._note = note

    def so_far(self, what: str) -> int:
        """The greatest answer, for a question that is asked now."""
        return self.newest.get(what, -1)

    def answered(self, who: str, what: str, before: int, value: int) -> None:
        """An answer has come; `before`: `so_far` at its question."""
        self.answers[who] = self.answers.get(who, 0) + 1
        if value < before:
            self.faults.append(f"{who} was answered {what} {value}, and {before} was answered before it asked")
            self._note(self.faults[-1])
        self.newest[what] = max(self.newest.get(what, -1), value)


class Asker:
    """A client of one protocol, with one question at a time. Subclasses say how: `opened`, `ask`, and they call `took`.

    link   what sends the client's bytes, None without a connection
    """

    protocol = ""

    def __init__(self, readers: Readers, name: str, seen: Seen) -> None:
        self.name, self.seen = name, seen
        self.chance = random.Random(f"{readers.cluster.seed} {name}")
        self.link: Any = None
        self.where = ""
        self._readers = readers
        self._clock = readers.cluster.clock
        self._serial = self._left = 0
        self._about: dict[int, tuple[str, int]] = {}

    def start(self) -> None:
        """Connect."""
        self.where = self._readers.dial(self.protocol, self)

    def connected(self, link: Any) -> None:
        """Party.connected."""
        self.link, self._left = link, ASKED_MAX
        self._about.clear()
        self.opened()

    def lost(self) -> None:
        """Party.lost."""
        self.link = None
        self._about.clear()
        self._serial += 1
        self._later(self.chance.randrange(1, 100), self.start)

    def opened(self) -> None:
        """The connection is there."""
        self.next()

    def next(self) -> None:
        """Ask the next question, or connect to somebody else."""
        if self.link is None:
            return
        if not self._left:
            self.hop()
            return
        self._left -= 1
        self._serial += 1
        serial = self._serial
        self._later(ANSWER_MS, lambda: self.next() if serial == self._serial else None)
        self.ask(serial)

    def hop(self) -> None:
        """Connect to somebody else."""
        link, before = self.link, self._serial
        if link is not None:
            link.reset()
            if self._serial == before:  # datagrams have no connection that ends
                self.lost()

    def ask(self, serial: int) -> None:
        """Send question `serial`, after a call of `about`."""
        raise NotImplementedError

    def about(self, serial: int, what: str) -> None:
        """Question `serial` is asked now."""
        self._about[serial] = what, self.seen.so_far(what)

    def took(self, serial: int, value: int | None) -> None:
        """Its answer has come; None: a refusal, or nothing is known."""
        what, before = self._about.pop(serial, ("", 0))
        if what and value is not None:
            self.seen.answered(f"{self.protocol} {what} at {self.where}", what, before, value)
        if serial == self._serial:
            self._serial += 1
            self._later(self.chance.randrange(1, 60), self.next)

    def _later(self, milliseconds: int, call: Callable[[], None]) -> None:
        self._clock.call_at(self._clock.monotonic_ns() + milliseconds * MILLISECOND_NS, call)

    def received(self, data: bytes) -> None:
        """Party.received."""
        raise NotImplementedError


class RemotingAsker(Asker):
    """QUERY_CONSUMER_OFFSET and GET_MAX_OFFSET by turns."""

    protocol = "remoting"

    def opened(self) -> None:
        """Asker.opened."""
        self._decoder = frame.FrameDecoder()
        self.next()

    def ask(self, serial: int) -> None:
        """Asker.ask."""
        what = POSITION if serial % 2 else END
        self.about(serial, what)
        code = codes.QUERY_OFFSET if what == POSITION else codes.GET_MAX_OFFSET
        self.link.send(frame.encode(code, serial, fields={"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}))

    def received(self, data: bytes) -> None:
        """Party.received."""
        for answer in self._decoder.feed(data):
            value = (answer.fields() or {}).get("offset")
            self.took(answer.opaque, int(value) if answer.code == 0 and value else None)


class HttpAsker(Asker):
    """The latest value of a path, and the bounds of the queues of its topic, by turns."""

    protocol = "http"

    def opened(self) -> None:
        """Asker.opened."""
        self._data = b""
        self._asked = 0
        self.next()

    def next(self) -> None:
        """Asker.next: a late answer would be taken for the next one."""
        if self.link is not None and self._asked:
            self.hop()
        else:
            super().next()

    def ask(self, serial: int) -> None:
        """Asker.ask."""
        self._asked = serial
        what = VALUE if serial % 4 < 2 else END
        self.about(serial, what)
        self.target = f"/v1/latest/{PATH}" if what == VALUE else f"/v1/topics/{TOPIC}/queues"
        self.link.send(f"GET {self.target} HTTP/1.1\r\nhost: sim\r\n\r\n".encode())

    def received(self, data: bytes) -> None:
        """Party.received."""
        self._data += data
        head, end, content = self._data.partition(b"\r\n\r\n")
        if not end:
            return
        sizes = [line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        size = int(sizes[0]) if sizes else 0
        if len(content) < size:
            return
        self._data = content[size:]
        serial, self._asked = self._asked, 0
        found: int | None = None
        if head.split(b" ", 2)[1] == b"200":
            found = int(content[:size]) if "/latest/" in self.target else json.loads(content[:size])["queues"][0]["max"]
        self.took(serial, found)


class CoapAsker(Asker):
    """GET of the latest value."""

    protocol = "coap"

    def ask(self, serial: int) -> None:
        """Asker.ask."""
        self.about(serial, VALUE)
        options = coap.join([(coap_option.URI_PATH, each) for each in (b"mq", *PATH.encode().split(b"/"))])
        token = serial.to_bytes(4, "big")
        self.link.send(coap.encode(coap.CON, coap.GET, serial & 0xFFFF, token, options, b""))

    def received(self, data: bytes) -> None:
        """Party.received."""
        packet = coap.decode(data)
        assert packet is not None
        if self.link is None:
            return
        if packet.kind == coap.CON:
            self.link.send(coap.empty(coap.ACK, packet.mid))
        if packet.code != coap.EMPTY and len(packet.token) == 4:
            self.took(int.from_bytes(packet.token, "big"), int(packet.payload) if packet.code == coap.CONTENT else None)


class MqttAsker(Asker):
    """A subscription, whose retained message is the latest value."""

    protocol = "mqtt"

    def opened(self) -> None:
        """Asker.opened."""
        self._decoder = Decoder(MQTT_PACKET_BYTES_MAX, V311, client=True)
        self._left = 1
        self.link.send(encode(Connect(V311, self.name, True, 60, None, None, None, NONE), V311))

    def ask(self, serial: int) -> None:
        """Asker.ask."""
        self._asked = serial
        self.about(serial, VALUE)
        self.link.send(encode(Subscribe(serial % 60_000 + 1, [(PATH, 0)]), V311))

    def received(self, data: bytes) -> None:
        """Party.received."""
        for packet in self._decoder.feed(data):
            if isinstance(packet, Connack) and not packet.code:
                self.next()
            elif isinstance(packet, Publish) and packet.retain:
                self.took(self._asked, int(packet.body))


ASKERS: Final = (RemotingAsker, HttpAsker, CoapAsker, MqttAsker)
