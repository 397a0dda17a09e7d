"""A remoting producer of transactions: it decides, omits or repeats decisions, and answers check-backs."""

from __future__ import annotations

import json
import random

from domain.limits import MILLISECOND_NS
from domain.message import property as properties
from domain.message.record import Record
from domain.ports import Clock
from protocols.remoting.wire import frame
from protocols.remoting.wire.header import FLAG_ONEWAY, JSON
from tests.simulation.sdk import SEND, Dial, RemotingClient

HEARTBEAT, END, CHECK = 34, 37, 39
COMMIT, ROLLBACK = 8, 12
GROUP = "sim-transactions"


class Transactor(RemotingClient):
    """Sends `count` half messages. `decisions`: the group's decisions over acknowledged half messages."""

    def __init__(
        self, name: str, clock: Clock, chance: random.Random, dial: Dial, topic: str, count: int,
        decisions: dict[str, int],
    ) -> None:  # fmt: skip
        super().__init__(name, clock, chance, dial)
        self._topic = topic
        self._open = [f"{name}/{number}" for number in range(count)]
        self._places: dict[str, tuple[str, str]] = {}
        self._checks = frame.FrameDecoder()
        self.decisions = decisions
        self.asked: dict[str, int] = {}

    @property
    def done(self) -> bool:
        """All half messages are acknowledged."""
        return not self._open

    def ready(self) -> None:
        self._checks = frame.FrameDecoder()
        body = {"clientID": self.name, "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        self.ask("heartbeat", HEARTBEAT, {}, json.dumps(body).encode())
        self._go_on()

    def received(self, data: bytes) -> None:
        for request in self._checks.feed(data):
            if request.flag & 1 == 0 and request.code == CHECK:
                self._check(request)
        super().received(data)

    def _go_on(self) -> None:
        if not self._open or self.link is None:
            return
        message = self._open[0]
        pairs = [("UNIQ_KEY", message), ("TRAN_MSG", "true"), ("PGROUP", GROUP), ("CHECK_IMMUNITY_TIME_IN_SECONDS", "2")]
        fields = {
            "a": GROUP, "b": self._topic, "c": "TBW102", "d": "4", "e": "-1", "f": "4", "g": "1", "h": "0",
            "i": properties.encode(pairs).decode(), "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        self.ask(message, SEND, fields, message.encode())

    def answered(self, about: object, answer: frame.Frame) -> None:
        message = str(about)
        if message == "heartbeat" or message not in self._open:
            return
        if answer.code == 0:
            self._open.remove(message)
            fields = answer.fields() or {}
            self._places[message] = (fields["queueOffset"], str(int(fields["msgId"][-16:], 16)))
            self.decisions[message] = self.chance.choice((COMMIT, COMMIT, ROLLBACK))
            if self.chance.random() < 0.6:
                self._decide(message, *self._places[message])
        pause = self.chance.randrange(1, 60) * MILLISECOND_NS
        self.clock.call_at(self.clock.monotonic_ns() + pause, self._go_on)

    def _decide(self, message: str, offset: str, position: str) -> None:
        fields = {
            "producerGroup": GROUP, "tranStateTableOffset": offset, "commitLogOffset": position, "msgId": message,
            "transactionId": message, "commitOrRollback": str(self.decisions[message]),
        }  # fmt: skip
        for _ in range(self.chance.choice((1, 1, 2))):
            if self.link is not None:
                self._opaque += 1
                self.link.send(frame.encode(END, self._opaque, fields=fields, flag=FLAG_ONEWAY, serialize=JSON))

    def _check(self, request: frame.Frame) -> None:
        fields = request.fields() or {}
        record = Record(request.body)
        message = record.body.decode()
        assert record.topic == self._topic
        self.asked[message] = self.asked.get(message, 0) + 1
        if message in self.decisions and self._answers():
            self._decide(message, fields["tranStateTableOffset"], fields["commitLogOffset"])

    def _answers(self) -> bool:
        """False for a question that is forgotten."""
        return self.chance.random() < 0.7
