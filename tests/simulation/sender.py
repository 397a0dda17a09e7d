"""A blocking producer: sends messages, batches, half messages and requests, and recalls timers."""

from __future__ import annotations

import json
import struct

from domain.message import property as properties
from protocols.remoting import codes
from protocols.remoting.wire import frame
from protocols.remoting.wire.header import FLAG_RESPONSE
from tests.simulation.caller import Caller
from tests.simulation.world import World

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


class Sender(Caller):
    """One producer of `group`. It sends a heartbeat every 30 s."""

    def __init__(self, world: World, name: str, group: str = "sim-producers") -> None:
        self.group = group
        self._number = 0
        super().__init__(world, name)

    def said_hello(self) -> None:
        self.every(30, "beat")

    def beat(self) -> None:
        """Send a heartbeat."""
        body = {"clientID": self.name, "producerDataSet": [{"groupName": self.group}], "consumerDataSet": []}
        self.post(codes.HEARTBEAT, {}, json.dumps(body).encode())

    def received(self, data: bytes) -> None:
        known = len(self.heard)
        super().received(data)
        for each in self.heard[known:]:
            if each.code == codes.PUSH_REPLY and self.link is not None:
                # The broker waits for this answer before it answers the client that sent the reply.
                self.link.send(frame.encode(0, each.opaque, flag=FLAG_RESPONSE))

    def _fields(self, topic: str, queue: int, sys_flag: int, pairs: dict[str, str]) -> dict[str, str]:
        return {
            "a": self.group, "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": str(sys_flag),
            "g": str(self.clock.wall_ms()), "h": "0", "i": properties.encode(list(pairs.items())).decode(), "j": "0",
            "k": "false", "m": "false",
        }  # fmt: skip

    def begin(self, topic: str, body: bytes, queue: int = -1, sys_flag: int = 0, **pairs: str) -> int:
        """Send without waiting. Returns the opaque. A message without UNIQ_KEY in `pairs` gets one."""
        self._number += 1
        pairs.setdefault("UNIQ_KEY", f"{self.name}{self._number:08}")
        return self.post(codes.SEND_V2, self._fields(topic, queue, sys_flag, pairs), body)

    def send(self, topic: str, body: bytes, queue: int = -1, sys_flag: int = 0, **pairs: str) -> dict[str, str]:
        """Send, which must succeed. Returns the answer's fields: msgId, queueId, queueOffset, recallHandle…"""
        opaque = self.begin(topic, body, queue, sys_flag, **pairs)
        found = self._wait(opaque)
        assert found.code == 0, (found.code, found.remark)
        return found.fields() or {}

    def refused(self, topic: str, body: bytes, **pairs: str) -> int:
        """Send a message that must be refused. Returns the code of the answer."""
        found = self._wait(self.begin(topic, body, -1, 0, **pairs))
        assert found.code != 0
        return found.code

    def _wait(self, opaque: int) -> frame.Frame:
        self.world.clock.run_until(lambda: opaque in self._answers)
        return self._answers.pop(opaque)

    def batch(self, topic: str, bodies: list[bytes], queue: int = 0) -> int:
        """Send a batch without waiting. Returns the opaque."""
        packed = b""
        for body in bodies:
            self._number += 1
            stored = properties.encode([("UNIQ_KEY", f"{self.name}{self._number:08}")])
            size = 22 + len(body) + len(stored)
            packed += struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + len(stored).to_bytes(2, "big") + stored
        fields = {**self._fields(topic, queue, 0, {}), "m": "true"}
        return self.post(codes.SEND_BATCH, fields, packed)

    def half(self, topic: str, name: str, **pairs: str) -> dict[str, str]:
        """Store a half message whose body and unique id are `name`."""
        return self.send(topic, name.encode(), -1, 4, UNIQ_KEY=name, TRAN_MSG="true", PGROUP=self.group, **pairs)

    def decide(self, name: str, offset: str, position: str, what: int) -> int:
        """End a transaction. Returns the code of the answer."""
        fields = {
            "producerGroup": self.group, "tranStateTableOffset": offset, "commitLogOffset": position, "msgId": name,
            "transactionId": name, "commitOrRollback": str(what),
        }  # fmt: skip
        return self.call(codes.END_TRANSACTION, fields).code

    def end(self, half: dict[str, str], what: int) -> int:
        """End a transaction by the answer to the send of its half message. Returns the code of the answer."""
        return self.decide(half["transactionId"], half["queueOffset"], str(int(half["msgId"][-16:], 16)), what)

    def questions(self) -> list[frame.Frame]:
        """Check-backs since the last call."""
        asked = [each for each in self.heard if each.code == codes.CHECK_TRANSACTION]
        self.heard = [each for each in self.heard if each.code != codes.CHECK_TRANSACTION]
        return asked

    def recall(self, topic: str, handle: str) -> int:
        """Recall a timer. Returns the code of the answer."""
        fields = {"producerGroup": self.group, "topic": topic, "recallHandle": handle}
        return self.call(codes.RECALL, fields).code
