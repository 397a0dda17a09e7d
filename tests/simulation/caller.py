"""A blocking remoting client: virtual time runs until the answer has arrived."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

from domain.limits import SECOND_NS
from domain.message.record import Record
from protocols.remoting.wire import frame
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, FLAG_RESPONSE, JSON
from tests.simulation.sdk import RemotingClient
from tests.simulation.world import World

ANSWER_MS = 60_000
TRIES = 3


class Caller(RemotingClient):
    """A remoting client that connects again by itself, at the latest with its next `call`.

    heard   requests that the node has sent to the client, oldest first
    """

    def __init__(self, world: World, name: str, port: str = "remoting") -> None:
        super().__init__(name, world.clock, random.Random(f"{world.seed} {name}"), lambda client: world.dial(port, client))
        self.world = world
        self.heard: list[frame.Frame] = []
        self._answers: dict[int, frame.Frame] = {}
        self._life = 0
        self.start()

    def ready(self) -> None:
        self._life += 1
        self.said_hello()

    def said_hello(self) -> None:
        """Called after each connect. Subclasses send heartbeats here."""

    def received(self, data: bytes) -> None:
        for each in self._decoder.feed(data):
            if each.flag & FLAG_RESPONSE:
                self._answers[each.opaque] = each
            else:
                self.heard.append(each)

    def answered(self, about: object, answer: frame.Frame) -> None:
        raise AssertionError("answers are waited for")

    def post(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", oneway: bool = False, flag: int = 0
    ) -> int:
        """Send a request in one of the two header encodings. Returns its opaque."""
        self.world.clock.run_until(lambda: self.link is not None, ANSWER_MS)
        assert self.link is not None
        self._opaque += 1
        serialize = JSON if code > 0x7FFF or self.chance.random() < 0.5 else BINARY
        flag |= FLAG_ONEWAY if oneway else 0
        self.link.send(frame.encode(code, self._opaque, fields=fields, body=body, serialize=serialize, flag=flag))
        return self._opaque

    def answer(self, opaque: int) -> frame.Frame | None:
        """The answer to a request if it has arrived. The answer is returned only once."""
        return self._answers.pop(opaque, None)

    def call(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> frame.Frame:
        """Send a request and wait for its answer. Sends it again when the connection breaks before, as SDKs do."""
        for _ in range(TRIES):
            opaque = self.post(code, fields, body)
            life = self._life
            self.world.clock.run_until(lambda at=opaque, life=life: at in self._answers or self._life != life, ANSWER_MS)  # type: ignore[misc]
            if opaque in self._answers:
                break
        return self._answers.pop(opaque)

    def done(self, code: int, fields: Mapping[str, str] | None = None, body: object = b"") -> dict[str, str]:
        """Send a request that must succeed. Returns the answer's fields. `body`: bytes, or a value that is sent as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        found = self.call(code, fields, data)
        assert found.code == 0, (code, found.code, found.remark)
        return found.fields() or {}

    def every(self, seconds: float, action: str) -> None:
        """Call the method `action` every `seconds` until this connection ends."""
        life = self._life

        def turn() -> None:
            if self._life == life and self.link is not None:
                getattr(self, action)()
                self.clock.call_at(self.clock.monotonic_ns() + int(seconds * SECOND_NS), turn)

        turn()

    def hang_up(self) -> None:
        """Break the connection; the client connects again only after `start`."""
        link, self.link = self.link, None
        self._life += 1
        self._dial = lambda _: None
        if link is not None:
            link.reset()


def records(body: bytes) -> list[Record]:
    """The records of an answer."""
    out: list[Record] = []
    while body:
        size = int.from_bytes(body[:4], "big")
        out.append(Record(body[:size]))
        body = body[size:]
    return out


def bodies(found: Sequence[Record]) -> list[str]:
    """The bodies of the messages, as text."""
    return [record.body.decode() for record in found]
