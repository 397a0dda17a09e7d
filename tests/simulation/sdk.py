"""Remoting clients: a producer that repeats sends until they are acknowledged, and a POP consumer."""

from __future__ import annotations

import random
from collections.abc import Callable

from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.message import property as properties
from domain.message.record import Record
from domain.ports import Clock
from protocols.remoting.wire import frame
from protocols.remoting.wire.header import BINARY, JSON
from tests.simulation.kit.links import Link
from tests.simulation.ledger import Ledger

SEND, POP, ACK = 310, 200050, 200051
INVISIBLE_MS = 4_000
Dial = Callable[["RemotingClient"], None]


class RemotingClient:
    """A client whose connection is opened again whenever it is lost. Subclasses override `ready` and `answered`."""

    def __init__(self, name: str, clock: Clock, chance: random.Random, dial: Dial) -> None:
        self.name = name
        self.clock = clock
        self.chance = chance
        self._dial = dial
        self._decoder = frame.FrameDecoder()
        self._opaque = 0
        self._asked: dict[int, object] = {}
        self.link: Link | None = None

    def start(self) -> None:
        """Connect now, or as soon as the node is up."""
        self._dial(self)

    def connected(self, link: Link) -> None:
        self.link = link
        self._decoder = frame.FrameDecoder()
        self._asked.clear()
        self.ready()

    def lost(self) -> None:
        self.link = None
        self._asked.clear()
        self.clock.call_at(self.clock.monotonic_ns() + self.chance.randrange(1, 200) * MILLISECOND_NS, self.start)

    def received(self, data: bytes) -> None:
        for answer in self._decoder.feed(data):
            asked = self._asked.pop(answer.opaque, None)
            if asked is not None:
                self.answered(asked, answer)

    def ask(self, about: object, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        """Send one request; `answered` is called with `about` and the answer."""
        if self.link is not None:
            self._opaque += 1
            self._asked[self._opaque] = about
            serialize = JSON if code > 0x7FFF or self.chance.random() < 0.5 else BINARY
            self.link.send(frame.encode(code, self._opaque, fields=fields, body=body, serialize=serialize))

    def ready(self) -> None:
        raise NotImplementedError

    def answered(self, about: object, answer: frame.Frame) -> None:
        raise NotImplementedError


class Producer(RemotingClient):
    """Sends `count` messages, several at a time, and repeats each until it is acknowledged."""

    def __init__(
        self, name: str, clock: Clock, chance: random.Random, dial: Dial, ledger: Ledger, topic: str,
        count: int,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, chance, dial)
        self._ledger = ledger
        self._topic = topic
        self._open = [f"{name}/{number}" for number in range(count)]
        self._flying: set[str] = set()

    @property
    def done(self) -> bool:
        """All messages are acknowledged."""
        return not self._open

    def ready(self) -> None:
        self._flying.clear()
        self._go_on()

    def _go_on(self) -> None:
        window = self.chance.randrange(1, 6)
        for message in [one for one in self._open if one not in self._flying][: max(0, window - len(self._flying))]:
            self._flying.add(message)
            self._ledger.sent[message] = self._ledger.sent.get(message, 0) + 1
            stored = properties.encode([("UNIQ_KEY", message), ("TAGS", "even" if len(message) % 2 else "odd")]).decode()
            fields = {
                "a": "sim", "b": self._topic, "c": "TBW102", "d": "4", "e": "-1", "f": "0", "g": "1", "h": "0", "i": stored,
                "j": "0", "k": "false", "m": "false",
            }  # fmt: skip
            self.ask(message, SEND, fields, message.encode() + b"." * self.chance.randrange(300))

    def answered(self, about: object, answer: frame.Frame) -> None:
        message = str(about)
        self._flying.discard(message)
        if answer.code == 0 and message in self._open:
            self._open.remove(message)
            self._ledger.acknowledged[message] = self.clock.monotonic_ns()
            self._ledger.note(f"{self.clock.monotonic_ns()} {self.name} sent {message}")
        pause = self.chance.randrange(1, 20) * MILLISECOND_NS
        self.clock.call_at(self.clock.monotonic_ns() + pause, self._go_on)


class Member(RemotingClient):
    """A POP consumer: receives, omits some acknowledgements at random, never acknowledges after the invisible time.

    order   True: it asks for the messages of a queue in their order
    """

    order = False

    def __init__(
        self, name: str, clock: Clock, chance: random.Random, dial: Dial, ledger: Ledger, topic: str,
        group: str, leases_survive: bool,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, chance, dial)
        self._ledger = ledger
        self._topic = topic
        self._group = group
        self._leases_survive = leases_survive

    def ready(self) -> None:
        self._poll()

    def _poll(self) -> None:
        fields = {
            "consumerGroup": self._group, "topic": self._topic, "queueId": "-1", "maxMsgNums": str(self.chance.randrange(1, 9)),
            "invisibleTime": str(INVISIBLE_MS), "pollTime": "1000", "bornTime": str(self.clock.wall_ms()), "initMode": "0",
            "expType": "TAG", "exp": "*", "order": "true" if self.order else "false",
        }  # fmt: skip
        self.ask("pop", POP, fields)

    def answered(self, about: object, answer: frame.Frame) -> None:
        if isinstance(about, tuple):
            self._acknowledged(about[0], answer)
            return
        if answer.code == 0:
            self._take(answer)
        pause = self.chance.randrange(1, 50) * MILLISECOND_NS
        self.clock.call_at(self.clock.monotonic_ns() + pause, self._poll if self.link is not None else lambda: None)

    def _take(self, answer: frame.Frame) -> None:
        fields = answer.fields() or {}
        pop_ms, invisible_ms = int(fields["popTime"]), int(fields["invisibleTime"])
        starts = dict(part.rsplit(" ", 1) for part in fields["startOffsetInfo"].split(";"))
        data = answer.body
        while data:
            size = int.from_bytes(data[:4], "big")
            record = Record(data[:size])
            data = data[size:]
            name = f"{record.queue_id}/{record.queue_offset}"
            until_ms = pop_ms + invisible_ms
            self._ledger.delivered(name, self.name, self.clock.wall_ms(), until_ms, self._leases_survive)
            self._ledger.note(f"{self.clock.monotonic_ns()} {self.name} got {name} until {until_ms}")
            receipt = properties.text(record.properties, properties.POP_CK)
            if not receipt:
                start = starts[f"0 {record.queue_id}"]
                receipt = (
                    f"{start} {pop_ms} {invisible_ms} {fields['reviveQid']} 0 broker-a {record.queue_id} {record.queue_offset}"
                )
            if self.chance.random() < 0.85:
                self._acknowledge(name, record, receipt, until_ms)

    def _acknowledge(self, name: str, record: Record, receipt: str, until_ms: int) -> None:
        after = self.chance.randrange(1, 300) * MILLISECOND_NS
        if self.clock.wall_ms() + after // MILLISECOND_NS + 500 >= until_ms:
            return
        fields = {
            "consumerGroup": self._group, "topic": self._topic, "queueId": str(record.queue_id),
            "offset": str(record.queue_offset), "extraInfo": receipt,
        }  # fmt: skip
        self.clock.call_at(self.clock.monotonic_ns() + after, lambda: self.ask((name,), ACK, fields))

    def _acknowledged(self, name: str, answer: frame.Frame) -> None:
        if answer.code == 0:
            self._ledger.settled.setdefault(name, self.clock.wall_ms())
            self._ledger.note(f"{self.clock.monotonic_ns()} {self.name} settled {name}")


SETTLE_NS = 120 * SECOND_NS
"""Time at the end of a run within which all messages must be consumed."""
